"""Unconditional defaults of built-in kinds."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.kube.definitions.bodies import POD

from fathom.kube.definitions.decode import Decoder
from fathom.kube.definitions.defaults import Defaults
from fathom.kube.definitions.registry import Registry
from fathom.model.objects import lookup

POD_SPEC = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30,
    "securityContext": {},
}
CONTAINER = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "resources": {},
}
PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}


def defaulted(registry: Registry, decoder: Decoder, resource: str, obj: Any) -> Any:
    kind = registry.by_resource(resource)
    assert kind is not None
    whole = copy.deepcopy(obj)
    decoder.apply_defaults(kind, whole)
    return whole


def test_a_pod_is_complete(registry: Registry, decoder: Decoder) -> None:
    spec = POD["spec"]
    container = spec["containers"][0]
    assert defaulted(registry, decoder, "pods", POD) == {
        **POD,
        "spec": {
            **POD_SPEC,
            "enableServiceLinks": True,
            "containers": [
                {
                    **CONTAINER,
                    **container,
                    "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "readinessProbe": {**PROBE, "httpGet": {"port": "http", "path": "/", "scheme": "HTTP"}},
                }
            ],
            "volumes": [{"name": "c", "configMap": {"name": "c", "defaultMode": 420}}],
        },
    }


def test_what_is_said_is_kept(registry: Registry, decoder: Decoder) -> None:
    said = {
        "spec": {
            **POD_SPEC,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "enableServiceLinks": False,
            "containers": [],
        }
    }
    assert defaulted(registry, decoder, "pods", said) == said


def test_empty_strings_and_plain_zeros_count_as_unset(registry: Registry, decoder: Decoder) -> None:
    container = {"name": "a", "ports": [{"protocol": ""}], "livenessProbe": {"periodSeconds": 0}}
    spec = defaulted(registry, decoder, "pods", {"spec": {"dnsPolicy": "", "initContainers": [container]}})[
        "spec"
    ]
    assert spec["dnsPolicy"] == "ClusterFirst"
    assert spec["initContainers"][0]["ports"] == [{"protocol": "TCP"}]
    assert spec["initContainers"][0]["livenessProbe"] == PROBE


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        ("pods", "spec"),
        ("podtemplates", "template.spec"),
        ("replicationcontrollers", "spec.template.spec"),
        ("replicasets.apps", "spec.template.spec"),
        ("deployments.apps", "spec.template.spec"),
        ("statefulsets.apps", "spec.template.spec"),
        ("daemonsets.apps", "spec.template.spec"),
        ("jobs.batch", "spec.template.spec"),
        ("cronjobs.batch", "spec.jobTemplate.spec.template.spec"),
    ],
)
def test_pods_in_templates_get_what_pods_get(
    registry: Registry, decoder: Decoder, resource: str, path: str
) -> None:
    obj: Any = {"containers": [{"name": "a"}]}
    for step in reversed(path.split(".")):
        obj = {step: obj}
    found = lookup(defaulted(registry, decoder, resource, obj), *path.split("."))
    found.pop("enableServiceLinks", None)  # Of pods alone.
    assert found == {**POD_SPEC, "containers": [{"name": "a", **CONTAINER}]}


@pytest.mark.parametrize(
    ("resource", "spec", "whole"),
    [
        (
            "deployments.apps",
            {},
            {
                "replicas": 1,
                "revisionHistoryLimit": 10,
                "progressDeadlineSeconds": 600,
                "strategy": {"type": "RollingUpdate"},
            },
        ),
        (
            "deployments.apps",
            {"replicas": 0, "strategy": {"type": "Recreate"}},
            {
                "replicas": 0,
                "revisionHistoryLimit": 10,
                "progressDeadlineSeconds": 600,
                "strategy": {"type": "Recreate"},
            },
        ),
        (
            "services",
            {"ports": [{"port": 80}]},
            {"type": "ClusterIP", "sessionAffinity": "None", "ports": [{"port": 80, "protocol": "TCP"}]},
        ),
        ("flowschemas.flowcontrol.apiserver.k8s.io", {"matchingPrecedence": 0}, {"matchingPrecedence": 1000}),
    ],
)
def test_other_kinds_get_theirs(
    registry: Registry, decoder: Decoder, resource: str, spec: Any, whole: Any
) -> None:
    assert defaulted(registry, decoder, resource, {"spec": spec}) == {"spec": whole}


def test_no_parent_is_made_for_a_default_inside_it(registry: Registry, decoder: Decoder) -> None:
    assert defaulted(registry, decoder, "deployments.apps", {"metadata": {}}) == {"metadata": {}}
    assert defaulted(registry, decoder, "configmaps", {"data": {}}) == {"data": {}}


def test_each_object_gets_containers_of_its_own() -> None:
    defaults = Defaults({"things": {"spec": {}, "spec.list": [{"a": 1}]}}, {})
    one: Any = {}
    other: Any = {}
    defaults.apply("things", one)
    defaults.apply("things", other)
    assert one == other == {"spec": {"list": [{"a": 1}]}}
    one["spec"]["list"][0]["a"] = 2
    assert other == {"spec": {"list": [{"a": 1}]}}


def test_groups_are_included_where_a_path_says_so() -> None:
    groups = {"Inner": {"x": 1, "deep[].y": "z"}, "Outer": {"items[]": "@Inner", "n?": 5}}
    defaults = Defaults({"things": {"spec": "@Outer", "spec.items[].w": True}}, groups)
    obj: Any = {"spec": {"n": 0, "items": [{"deep": [{}]}, {"x": 0}]}}
    defaults.apply("things", obj)
    assert obj == {
        "spec": {"n": 5, "items": [{"x": 1, "w": True, "deep": [{"y": "z"}]}, {"x": 0, "w": True}]}
    }
