"""Talk to Slurm: the only place that knows libslurm.

In come requests of the syncer, of commands and of benchmarks as plain values; out come frozen records, with no C behind
them, and errors that can be matched on (`errors`).

`records`, `states` and `gres` say what Slurm says; `binding` and `libslurm` are the way to it; `mirror` is what is
known now and how sure that is; `orders` is what we tell it; `cli` is `sunk slurm` for people. Only `libslurm` imports
the compiled binding.
"""
