"""The table of what nobody acts on: it names what there is, all of a pod, and its page says the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fathom.kube.definitions.definitions import Definitions, load
from fathom.kube.definitions.own import OWN_KINDS
from fathom.kube.definitions.registry import Registry
from fathom.kube.definitions.unenforced import (
    KEPT,
    POD_FIELDS,
    POD_SAYS,
    REFUSED,
    PodField,
    UnenforcedRule,
    pod_sentences,
    unenforced,
)

PAGE = Path(__file__).parents[3] / "docs" / "unenforced.md"
CORE = "io.k8s.api.core.v1"

# What somebody acts on, or what changes nothing here: no image is fetched and nothing is resized; a change of
# owners or labels of files is made or not needed; ephemeral containers cannot be created with a pod.
ACTED_ON = {
    "PodSpec": {
        "activeDeadlineSeconds", "affinity", "automountServiceAccountToken", "containers", "dnsConfig",
        "dnsPolicy", "enableServiceLinks", "ephemeralContainers", "hostAliases", "hostNetwork", "hostname",
        "initContainers", "nodeName", "nodeSelector", "overhead", "preemptionPolicy", "priority",
        "priorityClassName", "readinessGates", "resources", "restartPolicy", "schedulerName",
        "schedulingGates", "serviceAccount", "serviceAccountName", "subdomain",
        "terminationGracePeriodSeconds", "tolerations", "topologySpreadConstraints",
    },
    "Container": {
        "args", "command", "env", "envFrom", "image", "imagePullPolicy", "name", "resizePolicy",
        "restartPolicy", "restartPolicyRules", "stdin", "stdinOnce", "terminationMessagePath",
        "terminationMessagePolicy", "tty", "workingDir",
    },
    "SecurityContext": {"allowPrivilegeEscalation", "runAsGroup", "runAsNonRoot", "runAsUser"},
    "PodSecurityContext": {
        "fsGroup", "fsGroupChangePolicy", "runAsGroup", "runAsNonRoot", "runAsUser",
        "seLinuxChangePolicy", "supplementalGroups",
    },
    "Volume": {"configMap", "downwardAPI", "hostPath", "name", "secret"},
    "VolumeMount": {"mountPath", "name", "readOnly", "subPath", "subPathExpr"},
    "ContainerPort": {"containerPort", "hostIP", "name", "protocol"},
}  # fmt: skip
WHERE = {
    "PodSpec": "",
    "Container": "containers[].",
    "SecurityContext": "containers[].securityContext.",
    "PodSecurityContext": "securityContext.",
    "Volume": "volumes[].",
    "VolumeMount": "containers[].volumeMounts[].",
    "ContainerPort": "containers[].ports[].",
}


@pytest.fixture(scope="module")
def definitions() -> Definitions:
    return load()


@pytest.mark.parametrize("name", WHERE)
def test_every_field_of_a_pod_is_acted_on_or_in_the_table(definitions: Definitions, name: str) -> None:
    fields = set(definitions[f"{CORE}.{name}"]["properties"])
    at = WHERE[name]
    listed = {
        one.path.removeprefix(at).split(".")[0].removesuffix("[]")
        for one in POD_FIELDS
        if one.path.startswith(at)
    }
    unknown = fields - ACTED_ON[name] - listed
    assert unknown == set(), "who acts on these? Say so here, or in the table"
    assert ACTED_ON[name] <= fields


def stepped(definitions: Definitions, schema: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        schema = definitions.resolve(schema)
        if step == "[]":
            schema = schema["items"]
        elif "properties" in schema:
            schema = schema["properties"][step]
        else:
            schema = schema["additionalProperties"]
    return schema


@pytest.mark.parametrize("rule", [*REFUSED, *KEPT], ids=lambda one: f"{one.resource}/{one.field}")
def test_every_rule_is_about_a_kind_and_a_field_that_there_is(
    definitions: Definitions, rule: UnenforcedRule
) -> None:
    registry = Registry.builtin()
    for own in OWN_KINDS:
        registry.add(own)
    kind = registry.by_resource(rule.resource)
    assert kind is not None
    schema = kind.schema or definitions[definitions.name_of(kind.group, kind.version, kind.kind)]
    assert stepped(definitions, schema, rule.path)


@pytest.mark.parametrize("field", POD_FIELDS, ids=lambda one: one.path)
def test_every_pod_field_is_one_that_there_is(definitions: Definitions, field: PodField) -> None:
    steps = tuple(field.path.replace("[]", ".[]").split("."))
    assert stepped(definitions, definitions[f"{CORE}.PodSpec"], steps)


def test_what_an_object_says_is_found_and_defaults_are_not() -> None:
    (found,) = unenforced("services", {"spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Cluster"}})
    assert (found.rule.field, found.values) == ("spec.type", ("LoadBalancer",))
    assert unenforced("services", {"spec": {"type": "ClusterIP", "ports": [{"protocol": "TCP"}]}}) == []
    metrics = [{"type": "Resource"}, {"type": "Pods"}, {"type": "External"}]
    (found,) = unenforced("horizontalpodautoscalers.autoscaling", {"spec": {"metrics": metrics}})
    assert found.values == ("Pods", "External")


def test_values_of_any_shape_are_borne() -> None:
    shapes: tuple[Any, ...] = (None, "x", 1, [], {}, [[]], [{"x": 1}], {"[]": 1})
    for value in shapes:
        assert isinstance(unenforced("services", {"spec": value}), list)
        assert isinstance(pod_sentences({"containers": value, "securityContext": value}, "spec"), list)


def test_fields_without_meaning_are_not_warned_of() -> None:
    plain = {
        "hostIPC": False,
        "hostUsers": True,
        "os": {"name": "linux"},
        "securityContext": {"seccompProfile": {"type": "Unconfined"}, "runAsNonRoot": False},
        "containers": [
            {
                "stdin": False,
                "securityContext": {"capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}},
                "volumeMounts": [{"mountPropagation": "None"}],
            }
        ],
        "volumes": [{"emptyDir": {}}, {"configMap": {"name": "c"}}],
    }
    assert pod_sentences(plain, "spec") == []
    assert pod_sentences({"hostUsers": False}, "spec") == [
        "spec: kept, but fathom's agents do not enforce hostUsers"
    ]


def test_a_host_port_is_the_containers_own_on_the_hosts_network() -> None:
    containers = [{"ports": [{"containerPort": 80, "hostPort": 80}]}]
    assert pod_sentences({"containers": containers, "hostNetwork": True}, "spec") == []
    assert len(pod_sentences({"containers": containers}, "spec")) == 1


def test_a_sentence_names_so_many_fields_and_counts_the_rest() -> None:
    everything = {one.path.split(".")[1]: {"x": 1} for one in POD_FIELDS if one.path.startswith("volumes[].")}
    (*_, said) = pod_sentences({"volumes": [everything]}, "spec")
    assert said.endswith(" and 16 more")


def rows() -> list[str]:
    def values(one: UnenforcedRule | PodField) -> str:
        if one.only:
            return " of " + ", ".join(
                f"`{value}`".lower() if value is False else f"`{value}`" for value in one.only
            )
        return " other than " + ", ".join(f"`{value}`" for value in one.harmless) if one.harmless else ""

    def line(one: UnenforcedRule) -> str:
        what = f"`{one.field}`{values(one)}" if one.field else "all of it"
        unless = f" (no warning while the lease `{'/'.join(one.acts)}` is held)" if one.acts else ""
        return f"| `{one.resource}` | {what} | {one.says}{unless} |"

    pods = [
        f"- {says.removesuffix(':')}: "
        + ", ".join(f"`{one.path}`{values(one)}" for one in POD_FIELDS if one.group == group)
        for group, says in POD_SAYS.items()
    ]
    return [*map(line, REFUSED), *map(line, KEPT), *pods]


def test_the_page_has_the_table() -> None:
    lines = PAGE.read_text().splitlines()
    listed = [line for line in lines if line.startswith(("| `", "- fathom's agents"))]
    assert listed == rows(), "docs/unenforced.md should say:\n" + "\n".join(rows())
