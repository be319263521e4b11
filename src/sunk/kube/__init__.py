"""Talk to Kubernetes: typed, asynchronous, small. Nothing in here knows what the objects are used for.

```python
async with Client(access.find()) as kube:
    pod = await kube.get(PODS, "web-0", namespace="shop")
    async with watch(kube, PODS, Scope(namespace="shop")) as events:
        async for event in events: ...
```
"""
