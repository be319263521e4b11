"""libslurm, reached through a small extension that is compiled in the image against that release's slurm.h.

Two ways to have Slurm's tables in Python were left aside. Reading C structs field by field from Python costs a quarter
of a microsecond for every field of every row, all of it with the GIL held, so that 10,000 jobs stop the event loop for
a fifth of a second. And declaring the structs by hand (ctypes, cffi without a compiler) breaks silently, because their
layout changes with every release.

Here the rows are packed as MessagePack in C, without the GIL, and msgspec turns them into frozen records in one go; no
memory of C is behind those. Which field goes where stands once, in `shapes`; `build` writes the C code for it and
compares it with the records, so that the two cannot drift apart. What differs between releases is in `versions.h`.
"""
