"""Users and groups: out of entries of a directory, together out of all directories, and as files that Pods read.

In: entries and a `Domain`; out: `Content`, then `Merged` files. Nothing here waits or writes. Read `records`, `fields` (what may
stand in a file), `locks`, `entries`, `groups` (members of members), `merge` (who wins), and `files` (what it looks like, and how
it is read back).
"""
