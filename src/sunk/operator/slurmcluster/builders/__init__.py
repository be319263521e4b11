"""What the objects of a cluster have in common: names and labels, Pods, keys, users.

In comes a `ResolvedCluster`, out come pieces of Kubernetes objects as plain dicts. No I/O: `daemons`, `compute` and
`objects` put whole objects together from these pieces, and so does `rollout` for its probe Pods.

Read `metadata` (which components there are, and how their objects are named and labelled), then `pods` (the Pod template,
images, volumes) and `capabilities` (what containers may do), then what goes into Pods: `secrets` (which Secrets a cluster needs), `keyfiles` (how their keys reach
daemons that are not root), `hostkeys` (of sshd), `users` with `directories` (where users come from) and `s6` (scripts of
people).
"""
