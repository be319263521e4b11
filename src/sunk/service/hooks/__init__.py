"""Hooks: small HTTPS calls by which scripts in Pods tell a process of ours something, or wait for something.

In come hooks by name, a verifier of tokens and a rule of who may speak for which node; out come their answers as JSON.
The server runs in every replica, leader or not. The syncer serves prologs with it; the scheduler will serve placeholder
jobs. What two processes agree on (address, audience, files) is in `sunk.model.contract.hooks`.

A caller shows the token of its Pod's service account. It is checked by the keys that the API server publishes, so that a
thousand prologs at once are no thousand requests to it, and by a TokenReview where the keys do not do.

Read `server` (what it is made of, and how it begins and ends), `calls` (what is asked of a call, in which order) and
`answers` (what is said). Then `tokens` with `claims` (what a token has to say), `keys` and `review` (who vouches for it);
`connections` (what strangers may cost us), `certificate` (TLS, renewed while calls hang) and `metrics`.
"""
