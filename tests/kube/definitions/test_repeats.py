"""A spec that came before: the same object comes of it, with less work, and it is the caller's own."""

from __future__ import annotations

import copy

import msgspec
import pytest
from hypothesis import given
from tests.kube.definitions.bodies import POD, bodies

from fathom.kube.definitions.decode import Decoder
from fathom.kube.definitions.kind import Kind
from fathom.kube.definitions.registry import Registry
from fathom.kube.rules.table import rules_for
from fathom.model.errors import ApiError
from fathom.model.objects import Obj

REGISTRY = Registry.builtin()
encoded = msgspec.json.encode


def kind(resource: str) -> Kind:
    found = REGISTRY.by_resource(resource)
    assert found is not None
    return found


PODS = kind("pods")


def complete(decoder: Decoder, raw: bytes) -> Obj:
    """The slow twin."""
    obj = decoder.decode(PODS, raw).obj
    decoder.apply_defaults(PODS, obj)
    rules_for("pods").default(obj)
    return obj


def taught(*raws: bytes) -> Decoder:
    decoder = REGISTRY.decoder()
    for raw in raws:
        decoder.repeats.remember(PODS, raw, complete(decoder, raw))
    return decoder


def renamed(body: Obj, name: str) -> Obj:
    return {**body, "metadata": {**(body.get("metadata") or {}), "name": name, "labels": {"a": "b:c"}}}


def test_what_nobody_has_seen_is_looked_at() -> None:
    assert REGISTRY.decoder().repeats.read(PODS, encoded(POD)) is None


def test_another_pod_of_the_template_comes_out_as_the_closer_look_would_have_it() -> None:
    decoder, other = taught(encoded(POD)), encoded(renamed(POD, "other"))
    assert decoder.repeats.read(PODS, other) == complete(decoder, other)


@given(spec=bodies(REGISTRY.definitions, {"$ref": "#/$defs/io.k8s.api.core.v1.PodSpec"}))
def test_any_spec_that_is_known_comes_out_as_the_closer_look_would_have_it(spec: Obj) -> None:
    decoder, raw = REGISTRY.decoder(), encoded({**POD, "spec": spec})
    try:
        first = complete(decoder, raw)
    except ApiError:
        return
    decoder.repeats.remember(PODS, raw, first)
    again = encoded(renamed({**POD, "spec": spec}, "other"))
    assert decoder.repeats.read(PODS, again) == complete(decoder, again)


def test_everyone_gets_an_object_of_his_own() -> None:
    raw = encoded(POD)
    decoder = taught(raw)
    first = decoder.repeats.read(PODS, raw)
    assert first is not None
    before = copy.deepcopy(first)
    first["spec"]["containers"].clear()
    assert decoder.repeats.read(PODS, raw) == before


@pytest.mark.parametrize(
    "raw",
    [
        encoded(POD).replace(b'"spec":', b'"spec":{},"spec":', 1),
        encoded(POD).replace(b'"metadata":{', b'"metadata":{"name":"first",', 1),
        encoded({**POD, "metadata": {"name": "a", "unknown": 1}}),
        encoded({**POD, "status": {"phase": "Running"}}),
        encoded({**POD, "kind": "PodTemplate"}),
        encoded({**POD, "metadata": None}),
        encoded([POD]),
        encoded(POD)[:-1],
    ],
    ids=["two specs", "two names", "unknown", "status", "another kind", "null", "a list", "cut off"],
)
def test_whatever_else_is_odd_needs_the_closer_look(raw: bytes) -> None:
    assert taught(encoded(POD)).repeats.read(PODS, raw) is None
