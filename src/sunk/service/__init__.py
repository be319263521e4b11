"""What every process of ours is: it follows, it leads or stands by, it answers probes, and it ends cleanly.

In come the parts of a process (`part`) and its options; out comes an exit code. The commands of operator and syncer
call `options`, and their parts are given a `Setting`. Commands for people reach the API server through `asking`.

Read `options` (what is asked for), `process` (how it runs), `part` (what it runs), `leadership` (what waits for the
lease) and `scoped` (collections by namespace). `hooks` is by itself: the server for those parts that Pods call.
"""
