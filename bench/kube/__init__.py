"""The parts of `bench.kube_watch`: programs that run beside the measurement, each in a process of its own.

A figure of a client is only worth something if nothing else runs in its process. So whoever fills the server, writes
to it, follows it or holds its objects is a program here, started with arguments and heard by one line of JSON.
"""
