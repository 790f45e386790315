"""What a pod's writer is warned of."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kube.rules.written import created, rules_of

from fathom.kube.rules.pod.warnings import pod_warnings

CONTAINER: dict[str, Any] = {"name": "c", "image": "x"}
AMOUNTS = {"limits": {"memory": "100m"}, "requests": {"cpu": "1m"}}


def one(kind: str = "containers", **fields: Any) -> dict[str, Any]:
    return {kind: [{**CONTAINER, **fields}]}


@pytest.mark.parametrize(
    ("spec", "warnings"),
    [
        ({}, []),
        (
            one(env=[{"name": "A"}, {"name": "B"}, {"name": "A", "value": "2"}]),
            ['containers[0].env[2]: hides previous definition of "A", which may be dropped when using apply'],
        ),
        (
            one("initContainers", ports=[{"containerPort": 80}, {"containerPort": 80}]),
            ["initContainers[0].ports[1]: duplicate port definition with spec.initContainers[0].ports[0]"],
        ),
        (one(ports=[{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}]), []),
        (
            one(resources=AMOUNTS),
            [
                'containers[0].resources.limits[memory]: fractional byte value "100m" is invalid, '
                "must be an integer"
            ],
        ),
        (
            {"nodeSelector": {"beta.kubernetes.io/os": "linux", "other": "1"}},
            ['nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead'],
        ),
        (
            {"topologySpreadConstraints": [{"topologyKey": "zone"}]},
            ["topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod"],
        ),
        (
            {"imagePullSecrets": [{"name": "a"}, {"name": "a"}, {}]},
            [
                'imagePullSecrets[1].name: duplicate name "a"',
                'imagePullSecrets[2].name: invalid empty name ""',
            ],
        ),
    ],
)
def test_a_pod(spec: dict[str, Any], warnings: list[str]) -> None:
    found = pod_warnings({"metadata": {"name": "p"}, "spec": spec})
    assert [one for one in found if "kept, but" not in one] == [f"spec.{text}" for text in warnings]


@pytest.mark.parametrize(
    ("resource", "where"),
    [
        ("deployments.apps", ("spec", "template")),
        ("replicasets.apps", ("spec", "template")),
        ("statefulsets.apps", ("spec", "template")),
        ("daemonsets.apps", ("spec", "template")),
        ("jobs.batch", ("spec", "template")),
        ("cronjobs.batch", ("spec", "jobTemplate", "spec", "template")),
    ],
)
def test_a_workload_warns_of_its_template(resource: str, where: tuple[str, ...]) -> None:
    spec = {"containers": [CONTAINER], "hostAliases": [{"ip": "1.1.1.1"}, {"ip": "1.1.1.1"}]}
    obj: Any = {"metadata": {"annotations": {"security.alpha.kubernetes.io/sysctls": "x"}}, "spec": spec}
    for step in reversed(where):
        obj = {step: obj}
    at = ".".join(where)
    found = rules_of(resource).warnings({"metadata": {"name": "w"}, **obj})
    assert found == [
        f"{at}.metadata.annotations[security.alpha.kubernetes.io/sysctls]: "
        'non-functional in v1.11+; use the "sysctls" field instead',
        f'{at}.spec.hostAliases[1].ip: duplicate ip "1.1.1.1"',
    ]


def test_an_old_way_to_name_an_ingress_class() -> None:
    ingresses = rules_of("ingresses.networking.k8s.io")
    annotations = {"kubernetes.io/ingress.class": "nginx"}
    old = created("ingresses.networking.k8s.io", {"metadata": {"name": "i", "annotations": annotations}})
    assert old["status"] == {"loadBalancer": {}}
    assert ingresses.warnings(old) == [
        "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead"
    ]
    assert ingresses.warnings({"metadata": {"name": "i"}}) == []
