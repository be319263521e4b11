"""What there is of a NodeSet, read from the stores without a request.

In come the stores and a NodeSet; out comes a `Snapshot`: its members with their Pods, the Nodes that could join with
the names that they would get, and how long to wait if nothing else happens. `Triggers` says which NodeSets to enqueue
when a Node or a Pod changes. The controller and `act` call it; `decide` only sees the snapshot.

Read `snapshot`, then `members` (one member, and the list of them), `reader` (members from slices, cached), `index` (names
by owner). Whether a Node fits: `template` (what a Pod asks for), `requests` (the sum of it), `fit`. What a new member is
called: `names`.
"""
