"""A Kubernetes on this machine: real control plane, real kubelets, each node in namespaces of its own.

In: a `ClusterSpec`. Out: a running cluster with a kubeconfig, and after `down` nothing at all. Called by `sunk local`,
tests and benchmarks.

Read `spec`, then `cluster` (up and down), which puts together `controlplane`, `node`, `network`, `pki` and `assets` (the
programs and images that it starts with; `seed` puts images on nodes). `process` and `cgroups` start daemons so that all
can be found and ended; `limits` and `status` look at this machine.
"""
