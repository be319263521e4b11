"""The directory agent: reads the directories of one Slurm cluster, and hands their users and groups to all of its Pods.

In come the settings that the operator writes and the Secrets of the directories, as files, and what `ldapsearch` prints. Out
go the ConfigMaps of `sunk.model.contract.people`: passwd, group and shadow for everybody, keys and names for logins, and a
report for the operator. Only `sunk.cli` calls it, through `commands`.

Read `agent` (what is published when), `reader` (one directory, read again and again) and `publish` (the only door to
Kubernetes). Three packages below them do the work and know nothing of Kubernetes: `domain` says what a directory is by its
values and snippets, `ldap` asks it, and `users` makes users out of entries and files out of users.
"""
