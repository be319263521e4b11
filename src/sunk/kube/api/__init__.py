"""Requests to the API server: what a client sends, how often, and what it may send again.

In come typed requests (`Resource`, `Patch`, bodies) from the cache, the controllers and everybody who writes objects;
out come typed records, or an error of `sunk.kube.errors`. Nothing is cached here.

Read `client` first; then `patch` and `subresource` (what is written), `execution` (programs in containers), `retry` and
`limits` (when it is sent), `exchange` and `clock` (what is noted of each answer). `transport` and `allowance` are the
plumbing below: sockets, bodies of endless answers, and a cheap time limit.
"""
