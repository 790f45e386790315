"""Which kinds there are, and how they come and go."""

from __future__ import annotations

import copy

import msgspec
import pytest
from tests.kube.definitions.bodies import WIDGETS

from fathom.kube.definitions.custom import kinds_of_crd
from fathom.kube.definitions.registry import Registry

WIDGET = kinds_of_crd(WIDGETS)[0]


@pytest.fixture
def registry() -> Registry:
    """One of our own: these tests change it."""
    return Registry.builtin()


def test_a_kind_is_found_by_address_by_name_and_by_kind(registry: Registry) -> None:
    found = registry.find("apps", "v1", "deployments")
    assert found is not None
    assert registry.by_resource("deployments.apps") is found
    assert registry.by_gvk("apps", "v1", "Deployment") is found
    assert registry.find("apps", "v2", "deployments") is None
    assert registry.by_resource("deployments") is None
    assert registry.by_gvk("", "v1", "Deployment") is None


def test_bodies_are_known_but_have_no_address(registry: Registry) -> None:
    scale = registry.by_gvk("autoscaling", "v1", "Scale")
    assert scale is not None
    assert scale.definition == "io.k8s.api.autoscaling.v1.Scale"
    assert scale not in registry.kinds()
    assert registry.by_resource(scale.resource) is None


def test_two_kinds_may_share_one_storage(registry: Registry) -> None:
    core, new = registry.by_resource("events"), registry.by_resource("events.events.k8s.io")
    assert core is not None
    assert new is not None
    assert core.store_key("ns", "e") == new.store_key("ns", "e") == "/registry/events/ns/e"


def test_a_custom_kind_comes_changes_and_goes(registry: Registry) -> None:
    before = registry.kinds()
    seen = [registry.revision]

    registry.add_custom((WIDGET,))
    assert registry.kinds() == [*before, WIDGET]
    seen.append(registry.revision)

    registry.add_custom(kinds_of_crd(copy.deepcopy(WIDGETS)))
    assert registry.revision == seen[-1]

    moved = msgspec.structs.replace(WIDGET, version="v2", short_names=("w",))
    registry.add_custom((moved,))
    assert registry.kinds() == [*before, moved]
    assert registry.find("example.com", "v1", "widgets") is None
    assert registry.by_gvk("example.com", "v1", "Widget") is None
    seen.append(registry.revision)

    both = (WIDGET, msgspec.structs.replace(moved, stored_as=WIDGET.resource))
    registry.add_custom(both)
    assert registry.kinds() == [*before, *both]
    assert registry.by_resource(WIDGET.resource) == WIDGET
    seen.append(registry.revision)

    registry.remove_custom("widgets.example.com")
    assert registry.kinds() == before
    assert registry.by_resource("widgets.example.com") is None
    seen.append(registry.revision)
    assert seen == sorted(set(seen))


def test_built_in_kinds_stay(registry: Registry) -> None:
    pods = registry.by_resource("pods")
    assert pods is not None
    revision = registry.revision
    registry.remove_custom("pods")
    registry.remove_custom("nonsense")
    with pytest.raises(ValueError, match="pods is built in"):
        registry.add_custom((msgspec.structs.replace(pods, short_names=()),))
    assert (registry.by_resource("pods"), registry.revision) == (pods, revision)


def test_kinds_can_be_registered_from_code(registry: Registry) -> None:
    own = msgspec.structs.replace(WIDGET, group="fathom.dev", version="v1alpha1")
    registry.add(own)
    assert registry.find("fathom.dev", "v1alpha1", "widgets") is own
    body = {"kind": "Widget", "apiVersion": "fathom.dev/v1alpha1", "spec": {}}
    assert registry.decoder().decode(own, msgspec.json.encode(body)).obj["spec"] == {"size": 1}


def test_what_is_registered_with_one_registry_is_not_in_another(registry: Registry) -> None:
    found = registry.by_resource("configmaps")
    assert found is not None
    registry.add(msgspec.structs.replace(found, group="example.com", plural="gadgets", kind="Gadget"))
    assert registry.find("example.com", "v1", "gadgets") is not None
    assert Registry.builtin().find("example.com", "v1", "gadgets") is None
