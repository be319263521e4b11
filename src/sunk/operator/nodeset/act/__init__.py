"""All that the NodeSet controller writes, and the Pods it makes.

In come a NodeSet and its plan; out go requests to the API server, each on the condition that the object still is as it
was when the plan was made. Only the controller calls it.

Read `executor` (the order of writes), then its doors: `podcontrol` (the only place that creates or deletes Pods),
`slicecontrol`, `claims`, `revisions`, `events`. `podbuilder` makes Pods from the template and tries it on the API server;
`batches` and `ratelimit` bound how many writes there are at once and how often the same one is repeated.
"""
