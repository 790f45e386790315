"""A pod's shape: all that rules read, whoever reads it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.schedule.worlds import THEMES, pods

from fathom.model.objects import Key, Obj
from fathom.model.selectors import EQUALS, NOT_IN, LabelSelector, Requirement
from fathom.schedule.decide.pods import _READ, PodView, ShapeReader, pod_view
from fathom.schedule.decide.read_shape import shape_of
from fathom.schedule.decide.shape import AffinityTerm, HostPort, PodShape, Spread


def pod(spec: Obj | None = None, **meta: Any) -> Obj:
    body = {"containers": [{"name": "c", "image": "web"}], **(spec or {})}
    return {"metadata": {"name": "p", "namespace": "ns", "uid": "u", **meta}, "spec": body, "status": {}}


def asks(**amounts: str) -> Obj:
    return {"name": "c", "image": "web", "resources": {"requests": amounts}}


def shape(spec: Obj | None = None, **meta: Any) -> PodShape:
    return pod_view(pod(spec, **meta), tenant="t").shape


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(pods("p", None, set(THEMES)), min_size=2, max_size=6))
def test_a_reader_that_remembers_reads_what_one_that_does_not_reads(listed: list[Obj]) -> None:
    reader = ShapeReader()
    found = [reader.view(one, tenant="t") for one in (*listed, *listed)]
    assert found == [pod_view(one, tenant="t") for one in (*listed, *listed)]


VARIANTS: list[tuple[Obj, dict[str, Any]]] = [
    ({}, {"labels": {"app": "x"}}),
    ({}, {"namespace": "other"}),
    ({}, {"annotations": {"fathom.dev/capacity-class": "recovery"}}),
    ({}, {"ownerReferences": [{"kind": "Job", "name": "j", "controller": True}]}),
    ({"priority": 7}, {}),
    ({"preemptionPolicy": "Never"}, {}),
    ({"nodeSelector": {"a": "b"}}, {}),
    ({"tolerations": [{"operator": "Exists"}]}, {}),
    ({"schedulingGates": [{"name": "g"}]}, {}),
    ({"overhead": {"cpu": "1"}}, {}),
    ({"resources": {"requests": {"cpu": "3"}}}, {}),
    ({"containers": [asks(cpu="1")]}, {}),
    ({"containers": [asks(cpu="1"), asks(cpu="1")]}, {}),
    ({"containers": [{"image": "other"}]}, {}),
    ({"containers": [{"image": "web", "ports": [{"hostPort": 80}]}]}, {}),
    ({"initContainers": [asks(cpu="2")]}, {}),
    ({"initContainers": [{**asks(cpu="2"), "restartPolicy": "Always"}]}, {}),
    ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}, {}),
    ({"volumes": [{"name": "v", "ephemeral": {}}]}, {}),
    ({"resourceClaims": [{"name": "gpu"}]}, {}),
    ({"topologySpreadConstraints": [{"topologyKey": "z", "maxSkew": 1, "labelSelector": {}}]}, {}),
    (
        {
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
            }
        },
        {},
    ),
]


def test_pods_that_rules_would_tell_apart_have_different_shapes_and_the_reader_knows() -> None:
    reader = ShapeReader()
    plain = [reader.view(pod(spec, **meta), tenant="t").shape for spec, meta in VARIANTS]
    assert len({*plain, shape()}) == len(VARIANTS) + 1
    assert reader.view(pod(), tenant="other").shape != reader.view(pod(), tenant="t").shape


class _Noting(dict[str, Any]):
    """Notes which of its fields are read."""

    def __init__(self, fields: Obj) -> None:
        super().__init__(fields)
        self.read: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.read.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.read.add(str(key))
        return super().__contains__(key)


def test_a_shape_is_read_from_no_field_that_tells_no_shapes_apart() -> None:
    spec = {field: value for variant, _ in VARIANTS for field, value in variant.items()}
    read = []
    for reads in (lambda obj: shape_of(obj, tenant="t"), lambda obj: ShapeReader().view(obj, tenant="t")):
        noting = _Noting({**pod()["spec"], **spec})
        reads({**pod(), "spec": noting})
        read.append(noting.read)
    of_a_shape, of_a_reader = read
    assert of_a_shape <= set(_READ) | {"containers", "initContainers", "volumes"}
    assert of_a_shape | {"nodeName"} == of_a_reader


def test_what_no_rule_reads_does_not_make_another_shape() -> None:
    token = {"name": "kube-api-access-x7", "projected": {}}
    one = pod({"volumes": [token], "serviceAccountName": "x"}, name="p-1", uid="u-1", resourceVersion="9")
    other = pod({"volumes": [{**token, "name": "kube-api-access-b2"}]}, name="p-2", uid="u-2")
    reader = ShapeReader()
    assert reader.view(one, tenant="t").shape is reader.view(other, tenant="t").shape


def test_who_a_pod_is_and_how_it_stands_is_read_too() -> None:
    obj = pod(
        {"nodeName": "n"},
        creationTimestamp="2026-01-01T00:00:00Z",
        resourceVersion="12",
        deletionTimestamp="x",
    )
    obj["status"] = {"phase": "Failed", "startTime": "2026-01-01T00:00:01Z", "nominatedNodeName": "m"}
    assert pod_view(obj, tenant="t") == PodView(
        key=Key("ns", "p"),
        uid="u",
        shape=shape({"nodeName": "n"}),
        revision=12,
        created_ns=1767225600 * 10**9,
        started_ns=1767225601 * 10**9,
        node="n",
        nominated="m",
        deleting=True,
        finished=True,
    )


def test_sidecars_run_beside_the_rest_and_init_containers_before_it() -> None:
    sidecar = {**asks(cpu="200m"), "restartPolicy": "Always"}
    spec = {"initContainers": [asks(cpu="2"), sidecar], "containers": [asks(cpu="500m", memory="1Gi")]}
    assert shape({**spec, "overhead": {"cpu": "50m"}}).requests == (
        ("cpu", 2050),
        ("memory", 2**30),
        ("pods", 1),
    )


def test_containers_that_ask_for_nothing_are_scored_as_if_they_asked_for_a_little() -> None:
    found = shape({"containers": [asks(cpu="1"), {"name": "d", "image": "x"}]})
    assert (found.requests, found.scored_cpu_milli, found.scored_memory) == (
        (("cpu", 1000), ("pods", 1)),
        1100,
        2 * 200 * 2**20,
    )


def test_label_keys_are_folded_into_selectors_with_the_pods_own_values() -> None:
    selector = {"matchLabels": {"app": "x"}}
    term = {"topologyKey": "zone", "labelSelector": selector, "matchLabelKeys": ["rev", "absent"]}
    mismatch = {**term, "matchLabelKeys": [], "mismatchLabelKeys": ["team"]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": [term, mismatch]}
    spread = {"topologyKey": "zone", "maxSkew": 2, "labelSelector": selector, "matchLabelKeys": ["rev"]}
    spec = {"affinity": {"podAffinity": affinity}, "topologySpreadConstraints": [spread]}
    found = shape(spec, labels={"app": "x", "rev": "7", "team": "red"})
    app, rev = Requirement("app", EQUALS, ("x",)), Requirement("rev", EQUALS, ("7",))
    assert found.affinity == (
        AffinityTerm("zone", LabelSelector.of([app, rev]), ("ns",)),
        AffinityTerm("zone", LabelSelector.of([app, Requirement("team", NOT_IN, ("red",))]), ("ns",)),
    )
    assert found.spreads == (Spread("zone", 2, True, LabelSelector.of([app, rev])),)


@pytest.mark.parametrize(
    ("port", "expected"),
    [
        ({"hostPort": 80}, (HostPort(80, "TCP", "0.0.0.0"),)),
        ({"hostPort": 80, "hostIP": "::", "protocol": "UDP"}, (HostPort(80, "UDP", "0.0.0.0"),)),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, (HostPort(80, "TCP", "10.0.0.1"),)),
        ({"containerPort": 80}, ()),
    ],
)
def test_host_ports_are_read_with_their_defaults(port: Obj, expected: tuple[HostPort, ...]) -> None:
    assert shape({"containers": [{"image": "web", "ports": [port]}]}).ports == expected


def test_what_cannot_be_read_selects_nothing_instead_of_stopping_the_scheduler() -> None:
    term = {"topologyKey": "z", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Bad"}]}}
    wrong = {"key": "size", "operator": "Gt", "values": ["many"]}
    node_terms = {"nodeSelectorTerms": [{"matchExpressions": [wrong]}]}
    found = shape(
        {
            "affinity": {
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": node_terms},
            }
        }
    )
    assert not found.anti_affinity[0].selector.matches({"a": "b"})
    assert found.node_terms is not None
    assert not found.node_terms[0].labels[0].matches({"size": "5"})
