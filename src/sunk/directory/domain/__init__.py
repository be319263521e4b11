"""What a directory is: its values, `additionalConfig` and the snippets of its Secret, resolved into one `Domain`.

In: a `sunk.model.cluster.directory.Directory` and the folder with its Secrets. Out: a `Domain`, or a `Failure` that names the
value to blame. Read `snippets` (the form of sssd.conf), `options` (which of its options there are), `schema` (what attributes
are called) and `settings` (all of it together).
"""
