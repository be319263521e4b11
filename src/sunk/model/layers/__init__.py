"""Definitions of compute nodes, composed of layers.

A definition that says `definitions: [h100, cu128, las1]` is built from the bottom up: the layer `base`, then each layer
it names, in that order, then what stands beside `definitions`. Every layer updates what the ones below have made:

- Maps are gone into; what only one of the two has stays.
- A string, a number or a boolean replaces what was there.
- Lists are united: first what was there, then what is new, equal items once. Items that have a `name` are matched by
  it and gone into. A list that stands in one layer only stays as it was written, even if a word comes twice in it.
- Required node affinity is matched by the `key` of its expressions, which are replaced whole (`affinity`).
- Null takes the key away.

    catalog       where layers are found: the keys of compute.nodes, then those shipped with the chart
    tree          a value that knows of each of its parts which layer it came from
    update        the rules above
    affinity      those of node affinity
    nodeselector  `nodeSelector` as required node affinity
    compose       which layers, in which order

Layers that build on layers are laid out flat: a layer's own layers right before it, `base` once at the very bottom.
Refused was composing each layer by itself first: a null in it would meet nothing and be lost, and `base` beneath a
layer in the middle would take back what the layers before it had changed.
"""
