"""What a process that talks to Kubernetes shows of itself: probes, metrics, a log, and its event loop.

In come statistics of clients, stores, queues and leases; out come /healthz, /readyz, /metrics and lines of a log.
`sunk.service` puts them together; small programs use them alone.

Read `health` and `metrics`; `logs` and `loop` are a few lines each.
"""
