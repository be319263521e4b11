"""Rules of Kubernetes that we apply ourselves, exactly as Kubernetes does: pure, and tried against the real one.

In: fields of objects as they are read. Out: an answer, or a `Refusal` for what Kubernetes would refuse too. Anybody may
call them. `quantity` reads amounts, `taints` tells who is let onto a Node or stays there, `selection` which Nodes a
required affinity allows.
"""
