"""Slices from Endpoints that somebody keeps by hand, objects in and plan out."""

from __future__ import annotations

from typing import Any

import pytest
from tests.controllers.making import meta

from fathom.control.plan import NOTHING
from fathom.controllers.endpoints.plan import MANAGED_BY
from fathom.controllers.endpoints.plan_mirroring import LEADER, MIRROR, plan_mirror
from fathom.model.objects import Obj
from fathom.model.well_known import SERVICE_NAME_LABEL, SKIP_MIRROR_LABEL


def service(**spec: Any) -> Obj:
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta("db"), "spec": spec}


def endpoints(*subsets: Obj, **fields: Any) -> Obj:
    return {
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {**meta("db", labels={"team": "x"}), **fields},
        "subsets": list(subsets),
    }  # fmt: skip


SUBSET = {
    "addresses": [{"ip": "127.130.0.9", "nodeName": "n1"}, {"ip": "fd00::9"}],
    "notReadyAddresses": [{"ip": "127.130.0.8"}],
    "ports": [{"port": 5432}],
}


def mirrored() -> list[Obj]:
    return [one.obj for one in plan_mirror(endpoints(SUBSET), service(), ()).creates]


def test_a_subset_becomes_a_slice_for_each_family() -> None:
    four, six = mirrored()
    assert (four["metadata"]["name"], six["metadata"]["name"]) == ("db-mirror-ipv4-0", "db-mirror-ipv6-0")
    assert four["metadata"]["labels"] == {"team": "x", SERVICE_NAME_LABEL: "db", MANAGED_BY: MIRROR}
    assert four["metadata"]["ownerReferences"][0]["kind"] == "Endpoints"
    assert four["ports"] == six["ports"] == [{"name": "", "port": 5432, "protocol": "TCP"}]
    assert four["endpoints"] == [
        {"addresses": ["127.130.0.9"], "conditions": {"ready": True}, "nodeName": "n1"},
        {"addresses": ["127.130.0.8"], "conditions": {"ready": False}},
    ]
    assert six["endpoints"] == [{"addresses": ["fd00::9"], "conditions": {"ready": True}}]


def test_what_is_there_is_changed_and_what_is_no_longer_wanted_goes() -> None:
    there = [{**one, "metadata": {**meta(one["metadata"]["name"]), **one["metadata"]}} for one in mirrored()]
    assert plan_mirror(endpoints(SUBSET), service(), there) == NOTHING
    fewer = {**SUBSET, "addresses": [{"ip": "127.130.0.7"}], "notReadyAddresses": []}
    plan = plan_mirror(endpoints(fewer), service(), there)
    assert [one.line for one in plan.actions] == [
        "patch EndpointSlice default/db-mirror-ipv4-0",
        "delete EndpointSlice default/db-mirror-ipv6-0",
    ]
    assert plan.patches[0].patch == {
        "endpoints": [{"addresses": ["127.130.0.7"], "conditions": {"ready": True}}]
    }


@pytest.mark.parametrize(
    ("found", "of"),
    [
        (endpoints(SUBSET), None),
        (endpoints(SUBSET), service(selector={"app": "db"})),
        (endpoints(SUBSET), service(type="ExternalName")),
        (endpoints(SUBSET, labels={SKIP_MIRROR_LABEL: "true"}), service()),
        (endpoints(SUBSET, annotations={LEADER: "{}"}), service()),
    ],
)
def test_endpoints_that_are_somebody_elses_are_not_mirrored(found: Obj, of: Obj | None) -> None:
    assert plan_mirror(found, of, ()) == NOTHING


def test_slices_that_earlier_endpoints_left_behind_go_before_new_ones_take_their_names() -> None:
    plan = plan_mirror(endpoints(SUBSET), service(), (), mirrored()[:1])
    assert [one.target.key.name for one in plan.deletes] == ["db-mirror-ipv4-0"]
    assert [one.obj["metadata"]["name"] for one in plan.creates] == ["db-mirror-ipv6-0"]
