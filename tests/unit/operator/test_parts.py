"""What the process makes of the parts it is given."""

from collections.abc import AsyncIterator

import pytest

from sunk.kube.api.client import Client, Scope
from sunk.kube.auth.access import Access
from sunk.kube.auth.credentials import Nobody
from sunk.kube.cache.collection import Collection
from sunk.kube.core import PODS
from sunk.service.part import Part
from sunk.service.process import named


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with Client(Access(server="http://127.0.0.1:1", tls=None, credentials=Nobody())) as made:
        yield made


async def test_a_collection_that_two_parts_share_is_followed_once(client: Client) -> None:
    pods = Collection(client, PODS)
    parts = [Part(name, follows=(pods,), controllers=()) for name in ("one", "two")]
    assert named(parts) == {"/api/v1/pods": pods}


async def test_collections_of_one_resource_have_names_of_their_own(client: Client) -> None:
    parts = [Part(name, follows=(Collection(client, PODS),), controllers=()) for name in ("one", "two", "two")]
    assert list(named(parts)) == ["/api/v1/pods", "/api/v1/pods (2)", "/api/v1/pods (3)"]


async def test_each_namespace_has_a_name_of_its_own(client: Client) -> None:
    follows = tuple(Collection(client, PODS, Scope(namespace=name)) for name in ("a", "b"))
    found = named([Part("one", follows=follows, controllers=())])
    assert list(found) == ["/api/v1/namespaces/a/pods", "/api/v1/namespaces/b/pods"]
