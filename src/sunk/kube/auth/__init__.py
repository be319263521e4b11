"""Where the API server is, how to trust it, and who we are to it.

In comes a kubeconfig, or what Kubernetes puts into every Pod; out comes one `Access`, which a `Client` is made of.
Commands and processes call `access.find`; nobody else needs this package.

Read `access` first, then `credentials` (tokens and the Pod's account) and `plugin` (`exec` plugins).
"""
