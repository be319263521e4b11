"""NodeSets: which Nodes take part, their Pods, and how they leave.

In come the stores of Nodes, Pods, NodeSets, NodeSlices and ControllerRevisions; out go claims on Nodes, slices, compute
Pods, revisions, the NodeSet's status and events. The operator starts `controller.nodesets`; `commands` is the command
line. Nobody else calls in, except for the words of the status that `sunk.insight` shows.

Read `controller` first: one reconcile observes, decides and acts. Then `observe` (what there is), `decide` (what should
be, pure functions of a snapshot) and `act` (all writes). Imports point that way: `act` -> `decide` -> `observe`.
`rollback` is the history of templates for people; it only changes the spec.
"""
