"""What the provider does in a real cloud, for a local cluster: DNS, storage classes, volumes, and addresses of Services.

In: objects of the local cluster. Out: volumes, addresses, and statuses of Nodes. It runs as one process beside the control
plane, which `sunk.local.kubernetes.cluster` starts.

Read `agent` (the loop), then `volumes` and `balancers`, whose decisions are pure.
"""
