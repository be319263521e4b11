"""`sunk render`: what the operator would build of a chart and values, without any Kubernetes.

In come a chart and files of values, out comes text for people: objects, configuration files, or definitions with the
layer that each value came from. Only the CLI calls it.

Read `commands` (the options), `values` (how Helm would read and merge the values) and `layers` (definitions, for people).
"""
