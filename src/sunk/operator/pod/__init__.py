"""The Pod controller: what a Node says, written on the compute Pod on it.

In come Nodes and compute Pods; out goes one patch of a Pod's annotations, by which the syncer drains and lets jobs start.
The operator starts `controller.pods` before its other parts, and nobody else calls in. The rules are in
`sunk.operator.podannotations`, since a Pod also carries these annotations when it is created.
"""
