"""What should become of a NodeSet: pure functions of a snapshot.

In come a NodeSet, its `Snapshot`, the revision of its template and the time; out comes a `NodeSetPlan`, later the slices
to write and the status. Nothing here reads a store, sends a request or remembers anything. The controller and `act` call
it.

Read `plan`, then `membership` (who stays, leaves, joins), `podactions` (which Pods to create, mark, delete, update),
`slices` (where entries are written) and `status` (counts and conditions).
"""
