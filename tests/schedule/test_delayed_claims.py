"""Claims that wait for their first consumer: which nodes can have their volume, and which volume it is."""

from __future__ import annotations

from typing import Any

import pytest

from fathom.model.objects import Obj
from fathom.model.selectors import IN, Requirement
from fathom.schedule.decide.context import DelayedClaim
from fathom.schedule.decide.delayed_claims import (
    SELECTED_NODE,
    binding_patch,
    chosen_volume,
    delayed_claim,
    is_bound,
    is_reached,
    selection_patch,
)
from fathom.schedule.decide.resolve import volume_of
from fathom.schedule.decide.shape import NodeTerm

ZONE = "topology.kubernetes.io/zone"


def in_zone(zone: str) -> tuple[NodeTerm, ...]:
    return (NodeTerm((Requirement(ZONE, IN, (zone,)),)),)


def claim(*, size: str = "5Gi", annotations: dict[str, str] | None = None, **spec: Any) -> Obj:
    meta = {"namespace": "default", "name": "data", "uid": "c", "resourceVersion": "7"}
    needs = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {
        "metadata": {**meta, "annotations": annotations or {}},
        "spec": {"storageClassName": "slow", **needs, **spec},
        "status": {"phase": "Pending"},
    }


def storage_class(
    *, provisioner: str = "example.com/disks", mode: str = "WaitForFirstConsumer", **more: Any
) -> Obj:
    return {"metadata": {"name": "slow"}, "provisioner": provisioner, "volumeBindingMode": mode, **more}


def volume(name: str, *, size: str = "10Gi", zone: str = "a", phase: str = "Available", **spec: Any) -> Obj:
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
    of_volume = {
        "storageClassName": "slow",
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    }
    meta = {"name": name, "uid": name, "resourceVersion": "3"}
    return {"metadata": meta, "spec": {**of_volume, **spec}, "status": {"phase": phase}}


def node(zone: str) -> Obj:
    return {"metadata": {"name": f"node-{zone}", "labels": {ZONE: zone}}}


def by_name(*objects: Obj) -> dict[str, Obj]:
    return {obj["metadata"]["name"]: obj for obj in objects}


CLASSES = by_name(storage_class())


def test_a_claim_of_a_class_with_a_provisioner_can_have_its_volume_in_the_allowed_topologies() -> None:
    assert delayed_claim(claim(), {}, CLASSES) == DelayedClaim(offers=(None,))
    allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}]
    classes = by_name(storage_class(allowedTopologies=allowed))
    assert delayed_claim(claim(), {}, classes) == DelayedClaim(offers=(in_zone("b"),))


def test_without_a_provisioner_only_where_a_volume_is() -> None:
    classes = by_name(storage_class(provisioner="kubernetes.io/no-provisioner"))
    assert delayed_claim(claim(), {}, classes) == DelayedClaim()
    volumes = by_name(volume("v1"), volume("v2"), volume("v3", zone="b"))
    assert delayed_claim(claim(), volumes, classes) == DelayedClaim(offers=(in_zone("a"), in_zone("b")))


@pytest.mark.parametrize(
    "unfit",
    [
        volume("v", size="1Gi"),
        volume("v", phase="Bound"),
        volume("v", accessModes=["ReadOnlyMany"]),
        volume("v", storageClassName="other"),
        volume("v", volumeMode="Block"),
        volume("v", claimRef={"uid": "another"}),
    ],
)
def test_a_volume_that_does_not_suit_the_claim_offers_nothing(unfit: Obj) -> None:
    classes = by_name(storage_class(provisioner="kubernetes.io/no-provisioner"))
    assert delayed_claim(claim(), by_name(unfit), classes) == DelayedClaim()
    assert chosen_volume(claim(), node("a"), by_name(unfit), ()) is None


def test_a_selector_chooses_among_volumes() -> None:
    labelled = volume("v2")
    labelled["metadata"]["labels"] = {"disk": "fast"}
    wants = claim(selector={"matchLabels": {"disk": "fast"}})
    assert chosen_volume(wants, node("a"), by_name(volume("v1"), labelled), ()) == labelled


def test_a_claim_whose_node_was_selected_stays_with_it() -> None:
    selected = claim(annotations={SELECTED_NODE: "node-a"})
    delayed = delayed_claim(selected, {}, CLASSES)
    assert delayed is not None
    assert delayed.selected == "node-a"
    assert chosen_volume(selected, node("a"), by_name(volume("v1")), ()) is None


@pytest.mark.parametrize("classes", [{}, by_name(storage_class(mode="Immediate"))])
def test_a_claim_that_waits_for_nobody_is_unbound(classes: dict[str, Obj]) -> None:
    assert delayed_claim(claim(), {}, classes) is None
    assert volume_of(claim(), {}, classes).unbound


def test_where_nobody_binds_claims_every_claim_without_a_volume_is_unbound() -> None:
    assert volume_of(claim(), {}, None).unbound
    assert volume_of(claim(), {}, CLASSES).delayed == DelayedClaim(offers=(None,))


def test_the_smallest_volume_of_the_node_is_chosen_once() -> None:
    volumes = by_name(volume("v1", size="20Gi"), volume("v2"), volume("v3", size="5Gi", zone="b"))
    assert chosen_volume(claim(), node("a"), volumes, ()) == volumes["v2"]
    assert chosen_volume(claim(), node("a"), volumes, {"v2"}) == volumes["v1"]
    assert chosen_volume(claim(), node("c"), volumes, ()) is None


def test_bound_are_both_sides_and_to_a_volume_of_the_node() -> None:
    half = claim(volumeName="v1")
    assert not is_bound(half)
    assert is_bound({**half, "status": {"phase": "Bound"}})
    assert is_reached(half, node("a"), by_name(volume("v1")))
    assert not is_reached(half, node("b"), by_name(volume("v1")))
    assert not is_reached(half, node("b"), {})


def test_patches_name_the_revision_that_was_read() -> None:
    assert selection_patch(claim(), "node-a") == {
        "metadata": {"resourceVersion": "7", "annotations": {SELECTED_NODE: "node-a"}}
    }
    patch = binding_patch(volume("v1"), claim())
    assert patch["metadata"]["resourceVersion"] == "3"
    assert patch["spec"]["claimRef"] == {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "namespace": "default",
        "name": "data",
        "uid": "c",
        "resourceVersion": "7",
    }
