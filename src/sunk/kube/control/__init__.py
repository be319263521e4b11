"""Controllers: keys are enqueued, reconciled by workers, and only by the leader.

In come changes of stores (`sunk.kube.cache`); out come calls of a `reconcile(key)`, Events for people, and the answer
to "do we surely lead?". `sunk.service` runs controllers and the election; the parts of our processes declare them.

Read `controller` and `queue`; `lease` (leader election) and `term` (its arithmetic); `events`; `tasks` (what runs for
ever).
"""
