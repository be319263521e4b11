"""Requests in the words that Kubernetes counts its own in."""

import pytest

from sunk.kube.api.exchange import Exchange


@pytest.mark.parametrize(
    ("method", "path", "verb", "resource"),
    [
        ("GET", "/api/v1/pods", "list", "pods"),
        ("GET", "/api/v1/namespaces/a/pods/b", "get", "pods"),
        ("GET", "/api/v1/namespaces", "list", "namespaces"),
        ("GET", "/api/v1/namespaces/a", "get", "namespaces"),
        ("POST", "/api/v1/namespaces/a/pods/b/binding", "create", "pods/binding"),
        ("PATCH", "/api/v1/nodes/n/status", "patch", "nodes/status"),
        ("PUT", "/apis/apps/v1/namespaces/a/deployments/d/scale", "update", "deployments/scale"),
        ("DELETE", "/apis/sunk.test/v1/namespaces/a/wonders/w", "delete", "wonders"),
        ("DELETE", "/apis/sunk.test/v1/namespaces/a/wonders", "deletecollection", "wonders"),
        ("GET", "/version", "list", "none"),
    ],
)
def test_a_request_is_named_by_verb_and_resource(method: str, path: str, verb: str, resource: str) -> None:
    exchange = Exchange(method, path, 200, 0.1)
    assert (exchange.verb, exchange.resource) == (verb, resource)


def test_a_watch_is_no_list() -> None:
    assert Exchange("GET", "/api/v1/pods", 200, 0.1, watch=True).verb == "watch"
