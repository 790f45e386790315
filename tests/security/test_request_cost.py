"""No request takes long: what it costs the server grows no faster than the request, and ends at a limit.

Every list and every map of every kind is grown from 2,000 to 20,000 entries, all different and all equal, and
the server's CPU is compared. With script/test --full every definition is grown, and one that several kinds
share (a pod's lists are in the templates of eight others) again in some of them; otherwise a sample. A seed
chooses, which a failure prints: FATHOM_GROWTH_SEED=7 runs another.
"""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Iterator
from functools import partial

import pytest
from tests.api.bending import definition
from tests.api.fuzzing import (
    CRDS,
    JSON_PATCH,
    MAPS,
    NAMESPACE,
    STRATEGIC_PATCH,
    World,
    encoded,
    path_to,
)
from tests.security.costs import FEW, MANY, REQUEST_CPU_S_MAX, TRIES, Cost, Growth, cost, cpu_s
from tests.security.growing import Place, base, places, set_at, texts

from fathom.kube.definitions.kind import Kind
from fathom.kube.definitions.own import OWN_KINDS
from fathom.kube.definitions.registry import Registry
from fathom.kube.rules.pod.affinity import (
    NODE_EXPRESSIONS_MAX,
    POD_TERMS_MAX,
    SPREADS_MAX,
    TOLERATIONS_MAX,
)
from fathom.model.objects import Obj
from fathom.model.selectors import REQUIREMENTS_MAX, TEXT_CHARS_MAX

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
SEED = int(os.environ.get("FATHOM_GROWTH_SEED", "1"))
SAMPLE = 2
SHARED = 8  # Of places whose definition was grown in another kind already, one in so many is grown again.
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
    "pods.v1:spec.containers.[].env",
    "pods.v1:spec.imagePullSecrets",
    "pods.v1:spec.topologySpreadConstraints",
    "pods.v1:spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution",
    "pods.v1:metadata.ownerReferences",
    "resourcequotas.v1:spec.scopes",
    "nodes.v1:status.addresses",
    "services.v1:spec.ipFamilies",
    "jobs.batch.v1:spec.podFailurePolicy.rules.[].onExitCodes.values",
    "customresourcedefinitions.apiextensions.k8s.io.v1:spec.versions.[].schema.openAPIV3Schema.allOf.[].allOf",
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    threshold = gc.get_threshold()
    gc.set_threshold(50_000, 10, 10)  # As the server has it.
    gc.collect()
    gc.freeze()  # What earlier tests have left in this process is no cost of a request.
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


@pytest.mark.parametrize("name", ONCE_SLOW)
def test_what_was_slow_once_grows_with_its_size_alone(world: World, name: str) -> None:
    check_growth(world, by_name(name), all_verbs=False)


@pytest.mark.parametrize("place", random.Random(SEED).sample(PLACES, SAMPLE), ids=name_of)
def test_a_list_or_map_of_some_kind_costs_what_its_size_is(world: World, place: Place) -> None:
    check_growth(world, place)


def _once_each() -> set[int]:
    """Places whose definition is met for the first time: a pod's lists are in the templates of ten kinds."""
    seen: set[int] = set()
    first = set()
    for at, place in enumerate(PLACES):
        if id(place.schema) not in seen:
            seen.add(id(place.schema))
            first.add(at)
    return first


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.resource}-{kind.version}")
def test_every_list_and_map_of_a_kind_costs_what_its_size_is(world: World, kind: Kind) -> None:
    first, again = _once_each(), random.Random(SEED)
    for at, place in enumerate(PLACES):
        chosen = at in first or again.randrange(SHARED) == 0
        if place.kind is kind and chosen:
            check_growth(world, place, all_verbs=at in first)


def custom_kind(world: World) -> Kind:
    world.send("POST", CRDS, encoded(definition("growing", schema=CUSTOM)))
    kind: Kind | None = world.api.core.registry.by_resource("fuzzlings.growing.example.com")
    assert kind is not None
    return kind


@pytest.mark.full
def test_every_list_and_map_of_a_custom_kind_costs_what_its_size_is(world: World) -> None:
    for place in places(world.api.core.registry, custom_kind(world)):
        if place.steps[0] == "spec":
            check_growth(world, place, all_verbs=place.steps[-1] in {"named", "mapped"})


# Texts

RUNS = ("1", "a", "a.", "/..", "$(")


def check_text(world: World, place: Place) -> None:
    """Long runs of one sort of character, then something that does not belong: what makes a regular
    expression try everything."""
    for run in RUNS:
        found = cost(lambda count, run=run: _create_with(world, place, run, 10 * count))  # type: ignore[misc]
        assert found.is_fine, f"{place} of {run!r}: {found}"


def _create_with(world: World, place: Place, run: str, size: int) -> float:
    obj = base(REGISTRY, place.kind, "long")
    set_at(REGISTRY.definitions, place, obj, f"{(run * size)[:size]}!x")
    answers = []
    spent = cpu_s(lambda: answers.append(world.send("POST", path_to(place.kind), encoded(obj))))
    if answers[0].status == 201 and not place.kind.virtual:
        world.send("DELETE", path_to(place.kind, answers[0].obj["metadata"]["name"]))
    return spent


@pytest.mark.parametrize("place", random.Random(SEED).sample(TEXTS, SAMPLE), ids=name_of)
def test_a_long_text_in_some_field_costs_what_its_size_is(world: World, place: Place) -> None:
    check_text(world, place)


PARTS = 8  # So that workers share them.
# One of each two last steps of a way: what is beyond them is checked by the same code.
TEXTS_THAT_DIFFER = list({place.steps[-2:]: place for place in reversed(TEXTS)}.values())


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_long_text_in_every_field_costs_what_its_size_is(world: World, part: int) -> None:
    for place in TEXTS_THAT_DIFFER[part::PARTS]:
        check_text(world, place)


@pytest.mark.parametrize("amount", ["1" * 200_000 + "x", "1" * 200_000, "." * 100_000, "1e" * 100_000])
def test_a_long_quantity_is_refused_at_once(world: World, amount: str) -> None:
    pod = {"metadata": {"name": "long"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": amount}}  # type: ignore[index]
    assert quick(world, "POST", PODS, encoded(pod)) == 400


# Requests that make one thing meet another


def quick(world: World, method: str, path: str, body: bytes, **options: object) -> int:
    """The status of a request that takes less than a second of the server's CPU."""
    statuses: list[int] = []
    for _ in range(TRIES):
        # How long a try may take is judged here: on a busy machine one of several is enough.
        send = partial(world.send, method, path, body, cpu_s_max=60.0, **options)  # type: ignore[arg-type]
        spent = cpu_s(lambda send=send: statuses.append(send().status))  # type: ignore[misc]
        if spent < REQUEST_CPU_S_MAX:
            return statuses[0]
    raise AssertionError(f"{method} {path} took {spent:.1f} s of CPU")


def pod_of(**spec: object) -> Obj:
    container = {"name": "c", "image": "i"}
    return {"metadata": {"generateName": "p-"}, "spec": {"containers": [container], **spec}}


def numbered(count: int, **entry: str) -> list[Obj]:
    return [{key: value.format(at) for key, value in entry.items()} for at in range(count)]


def test_claims_that_a_pod_does_not_have_are_refused_in_few_words(world: World) -> None:
    claims = numbered(15_000, name="a{}", resourceClaimName="x")
    pod = pod_of(resourceClaims=claims)
    pod["spec"]["containers"][0]["resources"] = {"claims": numbered(15_000, name="b{}")}
    assert quick(world, "POST", PODS, encoded(pod)) == 422


def test_mounts_and_devices_of_one_container_are_compared_quickly(world: World) -> None:
    pod = pod_of(volumes=[{"name": "v", "emptyDir": {}}])
    pod["spec"]["containers"][0]["volumeMounts"] = numbered(15_000, name="v", mountPath="/m{}")
    pod["spec"]["containers"][0]["volumeDevices"] = numbered(15_000, name="v", devicePath="/d{}")
    assert quick(world, "POST", PODS, encoded(pod)) == 422


def test_label_keys_that_match_and_mismatch_are_compared_quickly(world: World) -> None:
    keys = [f"k{at}" for at in range(12_000)]
    term = {"topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": keys, "mismatchLabelKeys": keys}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    pod = pod_of(affinity={"podAffinity": required})
    pod["metadata"]["labels"] = dict.fromkeys(keys, "x")
    assert quick(world, "POST", PODS, encoded(pod)) == 422


def test_very_many_containers_under_a_limit_range_of_very_many_amounts_are_refused(world: World) -> None:
    limits = [{"type": "Container", "default": {f"e.com/x{at}": "1" for at in range(2_000)}}]
    where = f"/api/v1/namespaces/{NAMESPACE}/limitranges"
    made = world.send("POST", where, encoded({"metadata": {"name": "wide"}, "spec": {"limits": limits}}))
    assert made.status == 201
    pod = pod_of()
    pod["spec"]["containers"] = numbered(2_000, name="c{}", image="i")
    assert quick(world, "POST", PODS, encoded(pod)) == 403
    assert world.send("DELETE", f"{where}/wide").status == 200


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
LARGER: Obj = {"key": "kubernetes.io/hostname", "operator": "Gt", "values": ["7"]}
NEAR: Obj = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}


@pytest.mark.parametrize(
    ("most", "spec"),
    [
        (SPREADS_MAX, {"topologySpreadConstraints": "spread"}),
        (POD_TERMS_MAX, {"affinity": {"podAffinity": {REQUIRED: "near"}}}),
        (POD_TERMS_MAX, {"affinity": {"podAntiAffinity": {REQUIRED: "near"}}}),
        (POD_TERMS_MAX, {"affinity": {"podAntiAffinity": {PREFERRED: "weighted"}}}),
        (NODE_EXPRESSIONS_MAX, {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": "terms"}}}}),
        (NODE_EXPRESSIONS_MAX, {"affinity": {"nodeAffinity": {PREFERRED: "preferences"}}}),
        (NODE_EXPRESSIONS_MAX, {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": "one term"}}}}),
        (TOLERATIONS_MAX - 2, {"tolerations": "tolerations"}),  # Two are added for silent nodes.
    ],
)
def test_what_is_evaluated_for_every_node_has_a_limit(world: World, most: int, spec: Obj) -> None:
    """The scheduler pays for it at every attempt, the API server when somebody asks why the pod waits."""
    for count, status in ((most, 201), (most + 1, 422)):
        entries = {
            "spread": [
                {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **NEAR, "topologyKey": f"k{at}"}
                for at in range(count)
            ],
            "near": [NEAR] * count,
            "weighted": [{"weight": 1, "podAffinityTerm": NEAR}] * count,
            "terms": [{"matchExpressions": [LARGER]}] * count,
            "one term": [{"matchExpressions": [LARGER] * count}],
            "preferences": [{"weight": 1, "preference": {"matchExpressions": [LARGER]}}] * count,
            "tolerations": [{"key": f"k{at}", "operator": "Exists"} for at in range(count)],
        }
        pod = pod_of(**_with_entries(spec, entries))
        assert world.send("POST", PODS, encoded(pod), query={"dryRun": ["All"]}).status == status


def _with_entries(spec: Obj, entries: dict[str, list[Obj]]) -> Obj:
    return {
        name: entries[value] if isinstance(value, str) else _with_entries(value, entries)
        for name, value in spec.items()
    }


def test_an_autoscaler_of_very_many_metrics_or_policies_is_refused(world: World) -> None:
    """Its controller reads every pod of the target for every metric, every few seconds."""
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    policy = {"type": "Pods", "value": 1, "periodSeconds": 60}
    for metrics, policies, status in ((100, 100, 201), (101, 1, 422), (1, 101, 422), (20_000, 1, 422)):
        spec = {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 3,
            "metrics": [{"type": "Resource", "resource": cpu}] * metrics,
            "behavior": {"scaleUp": {"policies": [policy] * policies}},
        }
        where = f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers"
        body = encoded({"metadata": {"generateName": "a-"}, "spec": spec})
        assert world.send("POST", where, body, query={"dryRun": ["All"]}).status == status


def test_very_many_containers_under_very_many_quotas_are_counted_once(world: World) -> None:
    world.send("POST", "/api/v1/namespaces", encoded({"metadata": {"name": "quotas"}}))
    where = "/api/v1/namespaces/quotas"
    for at in range(180):
        scopes = ["NotBestEffort"] if at % 2 else []
        spec = {"hard": {f"requests.e.com/x{name}": "5" for name in range(50)}, "scopes": scopes}
        quota = {"metadata": {"name": f"q{at}"}, "spec": spec}
        assert world.send("POST", f"{where}/resourcequotas", encoded(quota)).status == 201
    pod = pod_of()
    pod["spec"]["containers"] = [
        {"name": f"c{at}", "image": "i", "resources": {"limits": {"e.com/x1": "0"}}} for at in range(5_000)
    ]
    assert quick(world, "POST", f"{where}/pods", encoded(pod)) == 201


def test_warnings_are_few_and_short_and_say_how_many_more_there_are(world: World) -> None:
    pod = pod_of()
    pod["spec"]["containers"][0]["env"] = numbered(30_000, name="same")
    answer = world.run(world.api.raw("POST", f"{PODS}?dryRun=All", encoded(pod)))
    assert answer.status == 201
    warnings = [value for name, value in answer.headers if name == "warning"]
    assert 1 < len(warnings) <= 51
    assert sum(map(len, warnings)) < 8_000
    assert warnings[-1].endswith('more warnings"')


def test_unknown_and_doubled_fields_are_told_in_few_words(world: World) -> None:
    doubled = b'{"metadata":{"name":"a"},"data":{' + b",".join([b'"a":"1"'] * 2)
    body = doubled + b"}" + b"".join(b',"x%d":1,"x%d":2' % (at, at) for at in range(20_000)) + b"}"
    answer = world.send("POST", MAPS, body, query={"fieldValidation": ["Strict"]})
    assert answer.status == 400
    assert len(answer.obj["message"]) < 50_000


def test_one_item_named_again_and_again_by_a_patch_is_refused(world: World) -> None:
    pod = pod_of()
    pod["metadata"] = {"name": "patched"}
    pod["spec"]["containers"][0]["env"] = numbered(20_000, name="e{}")
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod["spec"]}
    where = f"/api/v1/namespaces/{NAMESPACE}/podtemplates"
    made = world.send("POST", where, encoded({"metadata": {"name": "patched"}, "template": template}))
    assert made.status == 201
    again = [{"name": "c", "env": [{"name": f"n{at}"}]} for at in range(5_000)]
    patch = encoded({"template": {"spec": {"containers": again}}})
    media = {"content-type": STRATEGIC_PATCH}
    assert quick(world, "PATCH", f"{where}/patched", patch, headers=media) == 400


def test_a_large_value_moved_again_and_again_by_a_patch_is_refused(world: World) -> None:
    kind = custom_kind(world)
    obj = base(world.api.core.registry, kind, "moved")
    obj["spec"] = {"free": {f"x{at}": {"name": "a"} for at in range(20_000)}}
    assert world.send("POST", path_to(kind), encoded(obj)).status == 201
    there, back = ("/spec/free", "/spec/plain"), ("/spec/plain", "/spec/free")
    moves = [{"op": "move", "from": a, "path": b} for a, b in (there, back) * 2_000]
    media = {"content-type": JSON_PATCH}
    assert quick(world, "PATCH", path_to(kind, "moved"), encoded(moves), headers=media) == 422


def test_a_wide_map_of_texts_moved_again_and_again_by_a_patch_is_refused(world: World) -> None:
    wide = {"metadata": {"name": "wide"}, "data": {f"x{at}": "" for at in range(20_000)}}
    assert world.send("POST", MAPS, encoded(wide)).status == 201
    there, back = ("/data", "/other"), ("/other", "/data")
    moves = [{"op": "move", "from": a, "path": b} for a, b in (there, back) * 2_000]
    media = {"content-type": JSON_PATCH}
    assert quick(world, "PATCH", f"{MAPS}/wide", encoded(moves), headers=media) == 422
    assert world.send("DELETE", f"{MAPS}/wide").status == 200


def test_long_names_of_nested_fields_do_not_make_long_paths(world: World) -> None:
    """A path is told for each value: of 20 KB each they would be gigabytes."""
    kind = custom_kind(world)
    inner: object = [{"x": at} for at in range(10_000)]
    for at in range(50):
        inner = {f"{at}" + "n" * 20_000: inner}
    obj = base(world.api.core.registry, kind, "deep")
    obj["other"] = inner
    assert quick(world, "POST", path_to(kind), encoded(obj)) == 201
    changed = world.send("GET", path_to(kind, "deep")).obj
    assert quick(world, "PUT", path_to(kind, "deep"), encoded({**changed, "other": inner})) == 200
    world.send("DELETE", path_to(kind, "deep"))


def test_defaults_cannot_make_an_object_huge(world: World) -> None:
    item = {"type": "object", "properties": {"text": {"type": "string", "default": "x" * 100_000}}}
    items = {"type": "object", "properties": {"items": {"type": "array", "items": item}}}
    crd = definition("defaulting", schema={"type": "object", "properties": {"spec": items}})
    assert world.send("POST", CRDS, encoded(crd)).status == 201
    where = f"/apis/defaulting.example.com/v1/namespaces/{NAMESPACE}/fuzzlings"
    head = {"kind": "Fuzzling", "apiVersion": "defaulting.example.com/v1", "metadata": {"name": "a"}}
    body = encoded({**head, "spec": {"items": [{}] * 20_000}})
    assert quick(world, "POST", where, body) == 413


ONE_FIELD: Obj = {"type": "object", "properties": {"a": {"type": "string"}}}
MANY_FIELDS: Obj = {"type": "object", "properties": {f"p{at}": {"type": "string"} for at in range(8_000)}}
KEYS = [f"k{at}" for at in range(8_000)]
# A schema of very many parts, an object of very many values: spec of the definition, of the object, answer.
PRODUCTS: dict[str, tuple[Obj, object, int]] = {
    "all of many, each true": (
        {"type": "array", "items": {**ONE_FIELD, "allOf": [{"required": ["a"]}] * 2_000}},
        [{"a": "x"}] * 20_000,
        413,
    ),
    "any of many, the last true": (
        {
            "type": "array",
            "items": {**ONE_FIELD, "anyOf": [{"required": ["b"]}] * 2_000 + [{"required": ["a"]}]},
        },
        [{"a": "x"}] * 20_000,
        413,
    ),
    "many formats of a long text": (
        {"type": "string", "anyOf": [{"format": "duration"}] * 500},
        "1h" * 100_000 + "!",
        413,
    ),
    "many patterns of a long text": (
        {"type": "string", "allOf": [{"pattern": f"{at}.*x"} for at in range(1_000)]},
        "y" * 1_000_000,
        413,
    ),
    "many lists of allowed values, of a large object": (
        {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "allOf": [{"not": {"enum": [1]}}] * 500,
        },
        {f"a{at}": "x" for at in range(20_000)},
        413,
    ),
    "many fields, none of them set": ({"type": "array", "items": MANY_FIELDS}, [{}] * 40_000, 201),
    "many keys of a list's items": (
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": KEYS,
            "items": {
                "type": "object",
                "required": KEYS,
                "properties": {key: {"type": "string"} for key in KEYS},
            },
        },
        [{}] * 40_000,
        422,
    ),
    "many defaults": (
        {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {f"p{at}": {"type": "integer", "default": 1} for at in range(1_000)},
            },
        },
        [{}] * 1_000,
        413,
    ),
}


@pytest.mark.parametrize(("spec", "value", "answer"), PRODUCTS.values(), ids=PRODUCTS.keys())
def test_a_large_schema_and_a_large_object_do_not_multiply(
    world: World, spec: Obj, value: object, answer: int
) -> None:
    crd = definition("products", schema={"type": "object", "properties": {"spec": spec}})
    assert quick(world, "POST", CRDS, encoded(crd)) == 201
    where = f"/apis/products.example.com/v1/namespaces/{NAMESPACE}/fuzzlings"
    head = {"kind": "Fuzzling", "apiVersion": "products.example.com/v1", "metadata": {"generateName": "a-"}}
    assert quick(world, "POST", where, encoded({**head, "spec": value})) == answer
    world.send("DELETE", where)
    assert world.send("DELETE", f"{CRDS}/{crd['metadata']['name']}").status == 200


def test_defaults_at_every_depth_of_a_schema_are_checked_once(world: World) -> None:
    schema: Obj = {"type": "string"}
    wide = {f"q{at}": {"type": "string"} for at in range(150)}
    for _ in range(60):
        schema = {"type": "object", "default": {}, "properties": {"a": schema, **wide}}
    crd = definition("nested", schema={"type": "object", "properties": {"spec": schema}})
    assert quick(world, "POST", CRDS, encoded(crd)) == 201
    assert world.send("DELETE", f"{CRDS}/{crd['metadata']['name']}").status == 200


@pytest.mark.parametrize(
    "body",
    [
        b"\n".join(b"k%d: v" % at for at in range(200_000)),
        b"a:\n" + b"- b\n" * 600_000,
        b"a: " + b"[" * 100_000,
        b"a: |\n" + b" x\n" * 900_000,
        b"# " + b"x" * 3_000_000,
        b"a: '" + b"'" * 3_000_000,
        b"? " * 500_000,
        b"&a " * 500_000,
    ],
    ids=["fields", "items", "brackets", "lines", "comment", "quotes", "keys", "anchors"],
)
def test_large_yaml_is_read_or_refused_quickly(world: World, body: bytes) -> None:
    assert quick(world, "POST", MAPS, body, headers={"content-type": YAML}) in {400, 413, 422}


def test_a_definition_of_very_many_columns_or_patterns_is_refused(world: World) -> None:
    crd = definition("columns")
    column = {"name": "X", "type": "string", "jsonPath": ".spec..x"}
    crd["spec"]["versions"][0]["additionalPrinterColumns"] = [column] * 101
    assert quick(world, "POST", CRDS, encoded(crd)) == 422
    fields = {f"p{at}": {"type": "string", "pattern": f"^{at}"} for at in range(20_000)}
    assert (
        quick(world, "POST", CRDS, encoded(definition("p", schema={"type": "object", "properties": fields})))
        == 422
    )


# Selectors


def test_a_selector_that_is_too_long_is_refused(world: World) -> None:
    for parameter in ("labelSelector", "fieldSelector"):
        asked = {parameter: [",".join(f"metadata.name=k{at}" for at in range(80_000))]}
        assert quick(world, "GET", MAPS, b"", query=asked) == 400
    asked = {"labelSelector": [f"a in ({','.join(f'v{at}' for at in range(200_000))})"]}
    assert quick(world, "GET", MAPS, b"", query=asked) == 400


def test_a_selector_of_many_requirements_or_values_works_up_to_a_limit(world: World) -> None:
    values = ",".join(f"v{at}" for at in range(4_000))
    assert len(values) < TEXT_CHARS_MAX
    assert world.send("GET", MAPS, query={"labelSelector": [f"a in ({values})"]}).status == 200
    for count, status in ((REQUIREMENTS_MAX, 200), (REQUIREMENTS_MAX + 1, 400)):
        asked = ",".join(f"!k{at}" for at in range(count))
        assert world.send("GET", MAPS, query={"labelSelector": [asked]}).status == status


def test_costs_are_judged_by_their_growth() -> None:
    """Or the checks above could not fail."""
    assert FEW * 10 == MANY
    assert Cost(0.05, 0.5).is_fine
    assert not Cost(0.01, 0.9).is_fine
    assert not Cost(0.5, 1.5).is_fine
