"""`sunk check`: what the lock would evict from Nodes of NodeSets, and the toleration that agents need.

In: Nodes, NodeSets, DaemonSets and Pods, read once with the rights of whoever asks. Out: a table with commands to paste,
or JSON, and an exit code. Meant to be run before the first job: a device plugin or a CSI driver that is evicted takes the
GPUs or the volumes of the Node along. Only the command line calls it.

Read `commands`, then `survey` (what is read), then `evictions` (pure: who would be evicted), then `page`.
"""
