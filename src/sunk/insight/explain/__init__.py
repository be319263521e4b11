"""`sunk explain node`: the chain of causes behind the state of one node, in sentences, and what to do next.

In: a member of a NodeSet with its Pod and Node, as `sunk.insight.status.snapshot` reads them, and what the syncer says of
itself. Out: an `Explanation`. Only the command line calls it.

Read `commands`, then `explanation`, which is pure, and `locks`, its part about the lock.
"""
