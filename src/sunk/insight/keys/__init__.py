"""`sunk keys`: exchange the key of auth/slurm while jobs run, one step at a time.

In: the Secret with the keys of a cluster. Out: the same Secret, changed with the rights of who asks. The steps and their
rules are `sunk.model.contract.keyset`. Only the command line calls it.

Read `commands`, then `secret`.
"""
