"""How a directory is asked: by OpenLDAP's own `ldapsearch`, in a child process for each search.

In: a `Connection` and a `Query`. Out: entries, or a `Failure` that says in words what went wrong. Read `search` (the child),
`ldif` (what it prints), `results` (how it ended), `tlsprobe` (why TLS failed, which libldap does not say) and `names` (DNs).
"""
