"""The calls of libslurm, off the event loop and with an end in time.

In come values of Python; out come records (`sunk.slurm.records`) or an error of `sunk.slurm.errors`. The mirror and the
orders go through `Library`; nobody else calls C.

Read `library` (threads, patience, pings), then `wire` (the blocking calls and how tables are decoded), `accounts` (those
to slurmdbd about users) and `loading` (how libslurm gets into the process).
"""
