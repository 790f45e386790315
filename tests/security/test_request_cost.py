"""No request takes long: what it costs the server grows no faster than the request, and ends at a limit.

Every list and every map of every kind is grown from 2,000 to 20,000 entries, all different and all equal, and
the server's CPU is compared. All of them with script/test --full; otherwise a sample, chosen by a seed that a
failure prints: FATHOM_GROWTH_SEED=7 runs another.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest
from tests.api.fuzzing import (
    MAPS,
    NAMESPACE,
    World,
    encoded,
)
from tests.security.costs import REQUEST_CPU_S_MAX, TRIES, Growth, cost, cpu_s
from tests.security.growing import Place, places, texts

from fathom.api.kinds.own import OWN_KINDS
from fathom.api.kinds.registry import Registry
from fathom.model.objects import Obj

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
SEED = int(os.environ.get("FATHOM_GROWTH_SEED", "1"))
SAMPLE = 24
YAML = "application/yaml"

LISTED: Obj = {"type": "array", "items": {"type": "string"}}
ENTRY: Obj = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
CUSTOM: Obj = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "plain": LISTED,
                "once": {**LISTED, "x-kubernetes-list-type": "set"},
                "named": {
                    "type": "array",
                    "items": ENTRY,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                },
                "either": {
                    "type": "array",
                    "items": {**ENTRY, "anyOf": [{"required": ["name"]}, {"not": {"required": ["other"]}}]},
                },
                "defaulted": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {**ENTRY["properties"], "size": {"type": "integer", "default": 1}},
                    },
                },
                "mapped": {"type": "object", "additionalProperties": {"type": "string", "pattern": "^x"}},
                "free": {"type": "object", "additionalProperties": ENTRY},
            },
        }
    },
}


def _with_own() -> Registry:
    registry = Registry.builtin()
    for kind in OWN_KINDS:
        registry.add(kind)
    return registry


REGISTRY = _with_own()
KINDS = [kind for kind in REGISTRY.kinds() if "create" in kind.verbs or kind.virtual]
PLACES = [place for kind in KINDS for place in places(REGISTRY, kind)]
TEXTS = [place for kind in KINDS for place in texts(REGISTRY, kind)]

# What was slow once is looked at in every run.
ONCE_SLOW = (
    "pods.v1:spec.containers.[].resources.claims",
    "resourcequotas.v1:spec.scopes",
    "nodes.v1:status.addresses",
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    threshold = gc.get_threshold()
    gc.set_threshold(50_000, 10, 10)  # As the server has it.
    made = World(tmp_path_factory.mktemp("costs"))
    yield made
    made.still_answers()
    made.close()
    gc.set_threshold(*threshold)


def name_of(place: Place) -> str:
    return str(place)


def check_growth(world: World, place: Place, *, all_verbs: bool = True) -> None:
    for equal in (False, True):
        growth = Growth(world, place, equal=equal)
        found = {"create": cost(growth.create)}
        if all_verbs:
            found |= {verb: cost(change) for verb, change in growth.changes()}
        slow = [f"{verb}: {spent}" for verb, spent in found.items() if not spent.is_fine]
        assert not slow, (
            f"{place} {'equal' if equal else 'different'} entries: {'; '.join(slow)} (seed {SEED})"
        )
    world.still_answers()


def by_name(name: str) -> Place:
    return next(place for place in PLACES if str(place) == name)


@pytest.mark.xfail(strict=True, reason="some checks compare every entry with every other")
@pytest.mark.parametrize("name", ONCE_SLOW)
def test_what_was_slow_once_grows_with_its_size_alone(world: World, name: str) -> None:
    check_growth(world, by_name(name))


@pytest.mark.xfail(strict=True, reason="a regular expression tries every split of the digits")
@pytest.mark.parametrize("amount", ["1" * 200_000 + "x"])
def test_a_long_quantity_is_refused_at_once(world: World, amount: str) -> None:
    pod = {"metadata": {"name": "long"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": amount}}  # type: ignore[index]
    assert quick(world, "POST", PODS, encoded(pod)) == 400


# Requests that make one thing meet another


def quick(world: World, method: str, path: str, body: bytes, **options: object) -> int:
    """The status of a request that takes less than a second of the server's CPU."""
    statuses: list[int] = []
    for _ in range(TRIES):
        spent = cpu_s(lambda: statuses.append(world.send(method, path, body, **options).status))  # type: ignore[arg-type]
        if spent < REQUEST_CPU_S_MAX:
            return statuses[0]
    raise AssertionError(f"{method} {path} took {spent:.1f} s of CPU")


def pod_of(**spec: object) -> Obj:
    container = {"name": "c", "image": "i"}
    return {"metadata": {"generateName": "p-"}, "spec": {"containers": [container], **spec}}


def numbered(count: int, **entry: str) -> list[Obj]:
    return [{key: value.format(at) for key, value in entry.items()} for at in range(count)]


@pytest.mark.xfail(strict=True, reason="every refusal lists all claims of the pod")
def test_claims_that_a_pod_does_not_have_are_refused_in_few_words(world: World) -> None:
    claims = numbered(15_000, name="a{}", resourceClaimName="x")
    pod = pod_of(resourceClaims=claims)
    pod["spec"]["containers"][0]["resources"] = {"claims": numbered(15_000, name="b{}")}
    assert quick(world, "POST", PODS, encoded(pod)) == 422


@pytest.mark.xfail(strict=True, reason="warnings are not bounded")
def test_warnings_are_few_and_short_and_say_how_many_more_there_are(world: World) -> None:
    pod = pod_of()
    pod["spec"]["containers"][0]["env"] = numbered(30_000, name="same")
    answer = world.run(world.api.raw("POST", f"{PODS}?dryRun=All", encoded(pod)))
    assert answer.status == 201
    warnings = [value for name, value in answer.headers if name == "warning"]
    assert 1 < len(warnings) <= 51
    assert sum(map(len, warnings)) < 8_000
    assert warnings[-1].endswith('more warnings"')


@pytest.mark.xfail(strict=True, reason="selectors have no limit")
def test_a_selector_that_is_too_long_is_refused(world: World) -> None:
    for parameter in ("labelSelector", "fieldSelector"):
        asked = {parameter: [",".join(f"metadata.name=k{at}" for at in range(80_000))]}
        assert quick(world, "GET", MAPS, b"", query=asked) == 400
    asked = {"labelSelector": [f"a in ({','.join(f'v{at}' for at in range(200_000))})"]}
    assert quick(world, "GET", MAPS, b"", query=asked) == 400
