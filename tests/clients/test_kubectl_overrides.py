"""Two people and a server: break-glass and its review, an approval, with kubectl and real tokens."""

from __future__ import annotations

import json

import pytest
from tests.clients.kubectl import As, Kubectl, manifest
from tests.clients.objects import Obj, config_map

pytestmark = pytest.mark.kubectl


def override(name: str, **changes: object) -> Obj:
    spec = {"target": "workload/web", "scope": "cluster", "reason": "a drill", "expiresAfter": "10m"}
    return {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "SchedulerOverride",
        "metadata": {"name": name},
        "spec": {**spec, "changes": changes},
    }


def decide(who: Kubectl, namespace: str, path: str, status: Obj) -> tuple[int, str]:
    """kubectl knows no subresource `approval`, but raw paths: read, change, replace."""
    raw = f"/apis/fathom.dev/v1alpha1/namespaces/{namespace}/{path}"
    current = json.loads(who.ok(f"get --raw {raw}"))
    current["status"] = {**current.get("status", {}), **status}
    done = who.run(f"replace --raw {raw}/approval -f -", stdin=json.dumps(current))
    return done.code, done.err


@pytest.mark.full
def test_break_glass_for_its_author_until_it_ends_and_a_review_by_another(
    kubectl: Kubectl, person: As, namespace: str
) -> None:
    eve, tom = person("eve"), person("tom")
    kubectl.ok("create clusterrole fixer --verb=* --resource=configmaps")
    kubectl.ok("annotate clusterrole fixer fathom.dev/break-glass=true")
    may = {"verbs": ["create", "delete", "break-glass"], "apiGroups": ["fathom.dev"]}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    rules = [{**may, "resources": ["scheduleroverrides"]}]
    kubectl.create({**role, "metadata": {"name": "breaks"}, "rules": rules})
    kubectl.ok("create rolebinding eve --clusterrole=breaks --user=eve")
    kubectl.ok("create rolebinding tom --clusterrole=admin --user=tom")
    assert "cannot create resource" in eve.fails("create -f -", stdin=manifest(config_map("c")))
    eve.create(override("locked", breakGlassRole="fixer"))
    eve.create(config_map("c"))
    assert eve.run("auth can-i delete configmaps").out == "yes\n"
    assert eve.run("auth can-i delete configmaps -n default").out == "no\n"
    assert kubectl.run("auth can-i delete configmaps --as=eve").out == "no\n"
    (review,) = tom.json("get overridereviews")["items"]
    name = f"overridereviews/{review['metadata']['name']}"
    assert (review["spec"]["author"], review["status"]) == ("eve", {"phase": "Open"})
    assert "still active" in decide(tom, namespace, name, {"approved": True})[1]
    eve.ok("delete scheduleroverride locked --wait=false")
    assert eve.run("auth can-i delete configmaps").out == "no\n"
    kubectl.ok("create rolebinding eve-too --clusterrole=admin --user=eve")
    assert "somebody else must" in decide(eve, namespace, name, {"approved": True})[1]
    assert decide(tom, namespace, name, {"approved": True}) == (0, "")
    assert tom.value(f"get {name}", ".status.phase") == "Closed"
    kubectl.within("").ok("delete clusterrole fixer breaks")


def test_a_risky_override_waits_for_a_second_person(kubectl: Kubectl, person: As, namespace: str) -> None:
    ann, tom = person("ann"), person("tom")
    for who in ("ann", "tom"):
        kubectl.ok(f"create rolebinding {who} --clusterrole=admin --user={who}")
    limits = "patch steeringlimits default -n fathom-system --type=merge -p"
    kubectl.ok(limits, '{"spec":{"approvals":"on"}}')
    try:
        ann.create(override("shift", trafficWeights={"eu": 1}))
        asked = ann.json("get scheduleroverride shift")["status"]
        assert (asked["approval"]["requestedBy"], "expiresAt" in asked) == (["ann"], False)
        yes = {"approval": {**asked["approval"], "approved": True}}
        assert "somebody else must" in decide(ann, namespace, "scheduleroverrides/shift", yes)[1]
        ann.ok("patch scheduleroverride shift --type=merge -p", '{"spec":{"reason":"another"}}')
        assert "the spec has changed" in decide(tom, namespace, "scheduleroverrides/shift", yes)[1]
        now = ann.json("get scheduleroverride shift")["status"]["approval"]
        yes = {"approval": {**now, "approved": True}}
        assert decide(tom, namespace, "scheduleroverrides/shift", yes) == (0, "")
        assert tom.value("get scheduleroverride shift", ".status.approval.approver") == "tom"
        assert tom.value("get scheduleroverride shift", ".status.expiresAt")
    finally:
        kubectl.ok(limits, '{"spec":{"approvals":"off"}}')
