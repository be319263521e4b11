"""Accounts of users: `accounting.userAccounts.rules` of the values, kept true in slurmdbd.

In come users and groups, as the ConfigMaps have them that all Pods mount, the rules of the SlurmCluster, and what
slurmdbd has; out go orders to slurmdbd, and a note of who has been given an account. `sunk.syncer.process` runs it.

Only what these rules have made is changed or removed by them, and only while nobody else has changed it. Read `plan` (who
gets what, and what is ours), `source` (who there is), `arrivals` (why a new user has to wait), `memory` (what was given
before) and `controller`, in this order.
"""
