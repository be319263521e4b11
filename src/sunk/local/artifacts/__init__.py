"""Programs and images, built once from sources and kept by what they were built from.

In: this clone, package mirrors, the Go module proxy. Out: folders in the cache. Called by `sunk.local.kubernetes`,
`sunk.local.slurm` and `sunk local images`.

Read `cache` (how anything is kept), `parts` (Kubernetes, etcd, containerd and their kin), then `images` (what is shipped)
with `debian` (their base) and `buildah` (their builder); `pause` packs the image that every Pod needs.
"""
