"""Our own kinds through kubectl."""

from __future__ import annotations

import pytest
from tests.clients.kubectl import Kubectl
from tests.clients.objects import pod
from tests.clients.running import Server

pytestmark = pytest.mark.kubectl

# Lesson 021's, given an apiVersion and metadata.
OVERRIDE = """\
apiVersion: fathom.dev/v1alpha1
kind: SchedulerOverride
metadata:
  name: risk-api-eu-west-recovery
spec:
  target: workload/risk-api
  scope: region/eu-west
  reason: recovery-capacity
  expiresAfter: 45m
  changes:
    pauseAutoscaler: true
    avoidZones: [eu-west-a]
    allowReservedCapacityClass: recovery
status:
  observedGeneration: 12
  active: true
  affectedControllers: [scheduler, autoscaler, quota-controller]
"""


def test_an_override_is_applied_as_it_stands_and_shown(kubectl: Kubectl) -> None:
    applied = kubectl.run("apply -f -", stdin=OVERRIDE)
    assert applied.out == "scheduleroverride.fathom.dev/risk-api-eu-west-recovery created\n", applied.err
    assert 'Warning: spec.changes.allowReservedCapacityClass: there is no CapacityClass "recovery"' in (
        applied.err.splitlines()
    )
    titles, line = kubectl.ok("get sov").splitlines()
    assert titles.split() == ["NAME", "TARGET", "CHANGES", "OWNER", "EXPIRES", "ACK", "STATE", "AGE"]
    cells = line.split()
    assert [*cells[:4], *cells[5:8]] == [
        "risk-api-eu-west-recovery",
        "workload/risk-api",
        "pauseAutoscaler,avoidZones,allowReservedCapacityClass",
        "fathom-admin",
        "1/3",  # The server's own part; nobody else runs here.
        "Observed",
        "1/3",
    ]
    assert {"region/eu-west", "recovery-capacity"} <= set(kubectl.ok("get sov -o wide").split())
    assert "risk-api-eu-west-recovery" in kubectl.ok("get fathom")
    assert "expiresAfter" in kubectl.ok("explain scheduleroverride.spec")


def test_what_an_override_names_and_nothing_has_is_warned_of(kubectl: Kubectl, namespace: str) -> None:
    answer = kubectl.run("create -f -", stdin=OVERRIDE)
    assert (answer.code, answer.err.splitlines()) == (
        0,
        [
            f'Warning: spec.target: namespace "{namespace}" has no workload "risk-api"',
            "Warning: spec.scope: no node is in region/eu-west",
            "Warning: spec.changes.avoidZones: no node has the label topology.kubernetes.io/zone=eu-west-a",
            'Warning: spec.changes.allowReservedCapacityClass: there is no CapacityClass "recovery"',
        ],
    )


def test_kinds_and_nested_fields_are_explained(kubectl: Kubectl) -> None:
    kind = " ".join(kubectl.ok("explain workloadprogress").split())
    assert "DESCRIPTION: How many replicas of a workload have reached each stage" in kind
    current = " ".join(kubectl.ok("explain workloadprogress.status.current").split())
    assert "ready <integer> Replicas whose pods are Ready." in current
    steps = " ".join(kubectl.ok("explain runbook.spec.steps").split())
    assert "compensation <Object> What undoes the step when the run is undone." in steps


def test_limits_and_changes_are_explained_and_shown(kubectl: Kubectl) -> None:
    assert kubectl.rows("get steeringlimits -n fathom-system")[0] | {"AGE": ""} == {
        "NAME": "default",
        "APPROVALS": "off",
        "PODS": "1000",
        "NODES": "100",
        "ZONE%": "100",
        "TENANTS": "20",
        "EXTENSIONS": "3",
        "TOTAL": "168h",
        "AGE": "",
    }
    explained = " ".join(kubectl.ok("explain scheduleroverride.spec.changes.drain").split())
    assert "pods on the target's nodes are evicted, as disruption budgets allow" in explained


def test_what_an_override_cannot_do_is_refused_by_name(kubectl: Kubectl) -> None:
    wrong = OVERRIDE.replace("pauseAutoscaler: true", "makeItWork: true").replace("45m", "for ever")
    answer = kubectl.run("apply --validate=false -f -", stdin=wrong)
    assert answer.code != 0
    assert 'spec.changes: Unsupported value: "makeItWork"' in answer.err
    assert "spec.expiresAfter: Invalid value" in answer.err


def test_a_bound_pods_stages_are_shown(kubectl: Kubectl, server: Server, namespace: str) -> None:
    kubectl.create(pod("p"))
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": f"node-of-{namespace}"}}
    server.request("POST", "/api/v1/nodes", node)
    binding = {"target": {"kind": "Node", "name": f"node-of-{namespace}"}}
    server.request("POST", f"/api/v1/namespaces/{namespace}/pods/p/binding", binding)
    text = kubectl.ok("describe pod p")
    shown = [line.split() for line in text.partition("Conditions:")[2].splitlines()[1:5]]
    assert shown == [["Type", "Status"], ["Admitted", "True"], ["PodScheduled", "True"], ["Bound", "True"]]
    kubectl.ok("wait pod/p --for=condition=Bound --timeout=5s")
    server.request("DELETE", f"/api/v1/nodes/node-of-{namespace}")
