"""The same work as `bench.kube.sync`, by other Python packages, each as its own documentation would have it.

Each program runs in a virtual environment of its own: `python -m bench.kube_watch --peers` makes them, outside the
clone, from requirements.txt here.
"""
