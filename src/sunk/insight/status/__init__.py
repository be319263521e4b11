"""`sunk status`: all SlurmClusters, their parts and their nodes on one page.

In: objects of Kubernetes, read once or followed by watches. Out: tables, or the same as JSON. `sunk explain` uses the
snapshot and the members as well; nobody else calls it.

Read `commands`, then `snapshot` (what is read), `locks` (what the lock of a Node is, and since when), `members` (what
is to be said about one member), `overview` (the pure step from a snapshot to what people should know), and `tables` (how
that is drawn).
"""
