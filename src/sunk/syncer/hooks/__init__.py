"""The hook API of the syncer: what prologs and programs of compute Pods call, and what comes of it.

In come calls of compute Pods through `sunk.service.hooks`, which knows who calls; changes of Pods, and reads of Slurm. Out
go answers, and one write: the condition of a Node that asks for its reboot. Every replica serves. What a call makes the
leader do goes through others: `announced` is read by `sunk.syncer.conditions`, which asks for the lock, and `hello` by
`sunk.syncer.drains`, which lifts a drain.

Read `runs` (whether a job is on a node), `announced` (jobs that prologs have told of), `prehook` (the call that waits for
the lock), `hello`, `reboot`, then `api`, which puts them together; `metrics` counts.
"""
