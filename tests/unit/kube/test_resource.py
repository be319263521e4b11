import pytest

from sunk.kube.core import LEASES, NODES, PODS
from sunk.kube.resource import Key


def test_an_object_of_the_core_group_has_a_short_path() -> None:
    assert PODS.path("shop", "web-0") == "/api/v1/namespaces/shop/pods/web-0"


def test_an_object_of_a_named_group_says_its_group() -> None:
    assert LEASES.path("n", "l") == "/apis/coordination.k8s.io/v1/namespaces/n/leases/l"


def test_a_collection_is_that_of_one_namespace_or_of_all() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("shop") == "/api/v1/namespaces/shop/pods"


def test_a_subresource_comes_last() -> None:
    assert NODES.path(name="n1", subresource="status") == "/api/v1/nodes/n1/status"


def test_a_name_cannot_climb_out_of_its_place() -> None:
    assert NODES.path(name="../secrets") == "/api/v1/nodes/..%2Fsecrets"


def test_a_namespace_where_there_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="live in no namespace"):
        NODES.path("shop", "n1")


def test_a_name_without_its_namespace_is_refused() -> None:
    with pytest.raises(ValueError, match="pass namespace="):
        PODS.path(name="web-0")


def test_a_key_reads_like_kubectl_writes_it() -> None:
    assert (str(Key("shop", "web-0")), str(Key("", "n1"))) == ("shop/web-0", "n1")
