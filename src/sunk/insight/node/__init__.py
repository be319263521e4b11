"""`sunk node release`: take the lock off a Node by hand, and with it all that SUNK has written there.

In: names of Nodes or a selector. Out: a patch of each Node, with the rights of whoever runs it, and a line about each.
Meant for Nodes that nobody frees any more: the operator was uninstalled first, or a NodeSet's finalizer was taken off.
Only the command line calls it.

Read `commands`, then `release` (pure: what goes, and what speaks against it), then `releasing` (reads and writes).
"""
