"""The first line names the cause, in each of these troubles, though something else is wrong as well."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.explain.builders import (
    BACK_OFF,
    HOST,
    NOT_READY,
    READY,
    RUNS,
    ZONE,
    Obj,
    at,
    condition,
    container,
    decided,
    ended,
    event,
    evidence,
    lease,
    node,
    own,
    pod,
    reported,
    running,
    why,
)

from fathom.controllers.node_health.brake import MANY
from fathom.explain.evidence import Evidence, HeldObjects, ProcessState, Recorded
from fathom.model.decision import KeptDecision, Rejection, SeenVersions


class Trouble(msgspec.Struct, frozen=True):
    """One trouble with its decoy: what must be in the first line, and what must not."""

    evidence: Evidence
    names: tuple[str, ...]  # All in the first line.
    command: str = ""  # Of the proposed change; '' where none is proposed.
    decoy: str = ""  # Not in the first line.
    stage: str = ""


SPOT = {"key": "spot", "value": "yes", "effect": "NoSchedule"}
SPREAD = {
    "topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"tier": "front"}},
}  # fmt: skip
FRONT = {"labels": {"tier": "front"}}
HELD_QUOTA = {"TenantQuota": SeenVersions(60, 9000), "Node": SeenVersions(90), "Pod": SeenVersions(90)}
PORT: Any = {"ports": [{"containerPort": 80, "hostPort": 8080}]}


def zone(name: str) -> Obj:
    return {"labels": {ZONE: name}}


def quota_message() -> str:
    return (
        'pods "web-7f2-x4k2p" is forbidden: exceeded quota: small, requested: requests.cpu=2,'
        " used: requests.cpu=3, limited: requests.cpu=4"
    )


def replica_set(name: str, *conditions: Obj) -> Obj:
    meta = {"namespace": "shop", "name": name, "uid": f"uid-{name}"}
    return {
        "kind": "ReplicaSet", "metadata": meta, "spec": {"replicas": 2},
        "status": {"conditions": list(conditions)},
    }  # fmt: skip


def from_key(kind: str, name: str, key: str) -> Obj:
    return {"env": [{"name": "LEVEL", "valueFrom": {kind: {"name": name, "key": key}}}]}


def started(
    container_status: Obj, starting: Obj | None = None, spec: Obj | None = None, **more: Any
) -> Evidence:
    """A pod on node-1 whose one container is in trouble. Decoy: node-2 is cordoned."""
    conditions = [starting or condition("Starting", reason="ContainerCreating"), NOT_READY]
    held = pod(
        "web", container(**(spec or {})), on="node-1", status=running(container_status, conditions=conditions)
    )
    nodes = [node("node-1"), node("node-2", unschedulable=True)]
    return evidence(pods=[held], nodes=nodes, **more)


TROUBLES: dict[str, Trouble] = {
    # Pending.
    "gate": Trouble(
        evidence(
            pods=[pod(schedulingGates=[{"name": "example.com/ready"}])],
            nodes=[node("node-1"), node("node-2", unschedulable=True)],
        ),
        (
            "is not scheduled: it has a scheduling gate",
            "remove the scheduling gate example.com/ready",
            "(whoever",
        ),
        """kubectl -n shop patch pod web --type=json -p '[{"op":"remove","path":"/spec/schedulingGates"}]'""",
        decoy="uncordon",
        stage="gated",
    ),
    "tenant quota": Trouble(
        evidence(
            pods=[pod("old", cpu="900m", on="node-1"), pod()],
            nodes=[node("node-1"), node("node-2", unschedulable=True)],
            tenantquotas_fathom_dev=[own("TenantQuota", "shop", limits=[{"resources": {"cpu": "1"}}])],
        ),
        ("quota/shop", "(TenantQuota)", "raise cpu of quota/shop from 1 to 1900m"),
        "kubectl patch tenantquota shop --type=json -p "
        """'[{"op":"replace","path":"/spec/limits/0/resources/cpu","value":"1900m"}]'""",
        decoy="uncordon",
        stage="unschedulable",
    ),
    "topology spread": Trouble(
        evidence(
            pods=[
                pod("a1", on="a", meta=FRONT),
                pod("a2", on="a", meta=FRONT),
                pod("b1", on="b", meta=FRONT),
                pod(meta=FRONT, topologySpreadConstraints=[SPREAD]),
            ],
            # Decoy: the node where it should go has a taint.
            nodes=[node("a", **zone("zone-a")), node("b", **zone("zone-b"), taints=[SPOT])],
        ),
        (
            "1 of 2 nodes didn't match pod topology spread constraints",
            f"raise maxSkew over {ZONE} from 1 to 2",
            "(the pod's owner)",
        ),
        "kubectl -n shop patch pod web --type=json -p "
        """'[{"op":"replace","path":"/spec/topologySpreadConstraints/0/maxSkew","value":2}]'"""
        " --dry-run=client -o json | kubectl replace --force -f -",
        decoy="taint",
    ),
    "taint": Trouble(
        evidence(
            pods=[pod(nodeSelector={"disk": "ssd"})],
            nodes=[node("node-1", labels={"disk": "ssd"}, taints=[SPOT]), node("node-2", cpu="100m")],
        ),
        (
            "1 of 2 nodes had untolerated taint {spot: yes}",
            "tolerate the taint spot=yes:NoSchedule",
            "(the pod's owner)",
        ),
        "kubectl -n shop patch pod web --type=json -p "
        """'[{"op":"add","path":"/spec/tolerations","value":"""
        """[{"key":"spot","effect":"NoSchedule","operator":"Equal","value":"yes"}]}]'""",
        decoy="cpu",
    ),
    "node affinity": Trouble(
        evidence(
            pods=[pod(nodeSelector={"disk": "ssd"})], nodes=[node("node-1"), node("node-2", cpu="100m")]
        ),
        ("didn't match Pod's node affinity/selector", "drop disk=ssd from the nodeSelector"),
        "kubectl -n shop patch pod web --type=json -p "
        """'[{"op":"remove","path":"/spec/nodeSelector/disk"}]' --dry-run=client -o json"""
        " | kubectl replace --force -f -",
        decoy="cpu",
    ),
    "resources": Trouble(
        evidence(
            pods=[pod("web", container("side", "100m"), container("web", "1"))],
            nodes=[node("node-1", cpu="766m"), node("node-2", cpu="100m", taints=[SPOT])],
        ),
        (
            "have too little free cpu (NodeResourcesFit)",
            "lower cpu of container web to 666m",
            "(the pod's owner)",
        ),
        "kubectl -n shop patch pod web --type=json -p "
        """'[{"op":"replace","path":"/spec/containers/1/resources/requests/cpu","value":"666m"}]'"""
        " --dry-run=client -o json | kubectl replace --force -f -",
        decoy="taint",
    ),
    "host port": Trouble(
        evidence(
            pods=[pod("old", container(**PORT), on="node-1"), pod("web", container(**PORT))],
            nodes=[node("node-1"), node("node-2", cpu="100m")],
        ),
        (
            "didn't have free ports",
            "free host port 8080 on node-1: delete pod shop/old",
            "(the owner of pod shop/old)",
        ),
        "kubectl -n shop delete pod old",
        decoy="cpu",
    ),
    "policy": Trouble(
        evidence(
            pods=[pod("a1", on="a", meta=FRONT), pod(meta=FRONT)],
            nodes=[node("a", **zone("zone-a")), node("b", **zone("zone-b"), taints=[SPOT])],
            schedulingpolicies_fathom_dev=[own("SchedulingPolicy", "v5", maxZoneSkew=1)],
            policyrollouts_fathom_dev=[
                own("PolicyRollout", "policy", status={"active": "v5", "percent": 100}, to="v5")
            ],
        ),
        (
            "policy/v5: zones would differ by more than maxZoneSkew=1",
            "raise maxZoneSkew of policy v5 from 1 to 2",
        ),
    ),
    "override": Trouble(
        evidence(
            pods=[pod()],
            nodes=[node("node-1"), node("node-2", cpu="100m")],
            scheduleroverrides_fathom_dev=[
                own(
                    "SchedulerOverride",
                    "calm",
                    namespace="shop",
                    target="workload/web",
                    reason="a drill",
                    expiresAfter="1h",
                    changes={"avoidNodes": ["node-1"]},
                    status={"active": True, "expiresAt": at(-600)},
                )
            ],
        ),
        ("override/shop/calm", "end override shop/calm", "(a cluster operator)"),
        "kubectl -n shop delete scheduleroverride calm",
        decoy="cpu",
    ),
    "cordon": Trouble(
        evidence(pods=[pod()], nodes=[node("node-1", unschedulable=True), node("node-2", cpu="100m")]),
        ("1 of 2 nodes were unschedulable", "Change: kubectl uncordon node-1 (a cluster operator)"),
        "kubectl uncordon node-1",
        decoy="cpu",
    ),
    "stale view": Trouble(
        evidence(
            # The quota was raised at revision 70; the scheduler has heard of 60. Decoy: node-2 is cordoned.
            pods=[pod()],
            nodes=[node("node-1"), node("node-2", unschedulable=True)],
            tenantquotas_fathom_dev=[
                own("TenantQuota", "shop", revision=70, limits=[{"resources": {"cpu": "8"}}])
            ],
            records=(
                decided(
                    "unschedulable",
                    message="0/2 nodes are available: 1 quota/shop.",
                    nodes={"node-1": "TenantQuota: quota/shop"},
                    rejected=(Rejection("TenantQuota", "quota", 1),),
                    seen=HELD_QUOTA,
                ),
            ),
            processes=(
                ProcessState(process="deciders", parts=("scheduler",), leads=True, caches=HELD_QUOTA),
            ),
        ),
        (
            "waits for a node: the scheduler's view of TenantQuota is stale: it has revision 60",
            "the latest change is 70",
        ),
        decoy="cordon",
        stage="control-plane",
    ),
    "preemption under way": Trouble(
        evidence(
            pods=[
                pod("low", cpu="4", on="node-1", meta={"deletionTimestamp": at(-20)}),
                pod(cpu="3", priority=100, status={"nominatedNodeName": "node-1"}),
            ],
            nodes=[node("node-1"), node("node-2", unschedulable=True)],
        ),
        ("shop/low is being evicted from node-1 for it", "wait for the eviction to end"),
        decoy="uncordon",
        stage="preempting",
    ),
    "claim missing": Trouble(
        evidence(
            pods=[pod(volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])],
            nodes=[node("node-1"), node("node-2", cpu="100m")],
        ),
        ('persistentvolumeclaim "data" not found', "create PersistentVolumeClaim data", "(the pod's owner)"),
        """echo '{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","""
        """"kind":"PersistentVolumeClaim","metadata":{"namespace":"shop","name":"data"},"""
        """"spec":{"accessModes":["ReadWriteOnce"],"storageClassName":"","""
        """"resources":{"requests":{"storage":"1Gi"}},"volumeName":"shop-data"}},"""
        """{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"shop-data"},"""
        """"spec":{"accessModes":["ReadWriteOnce"],"storageClassName":"","capacity":{"storage":"1Gi"},"""
        """"hostPath":{"path":"/var/lib/volumes/shop-data"},"""
        """"claimRef":{"namespace":"shop","name":"data"}}}]}' | kubectl apply -f -""",
        decoy="cpu",
    ),
    # We are the cause.
    "scheduler dead": Trouble(
        evidence(
            # Decoy: node-2 is cordoned, and another lease is fresh.
            pods=[pod()],
            nodes=[node("node-1"), node("node-2", unschedulable=True)],
            leases_coordination_k8s_io=[lease(ago_s=95), lease("controllers")],
        ),
        (
            "waits for a node: nobody leads the scheduler",
            "lease fathom-system/scheduler",
            "95 s ago",
            "start a scheduler",
        ),
        "fathom serve scheduler",
        decoy="uncordon",
        stage="control-plane",
    ),
    "breaker": Trouble(
        evidence(
            pods=[pod(cpu="9")],  # Decoy: it fits no node.
            nodes=[node("node-1")],
            processes=(
                ProcessState(
                    process="deciders", parts=("scheduler",), leads=True, breaker="the API server fails"
                ),
            ),
        ),
        ("the scheduler (deciders) sends no requests: the API server fails",),
        decoy="cpu",
        stage="control-plane",
    ),
    # Refused.
    "ResourceQuota": Trouble(
        evidence(
            "web-7f2-x4k2p",
            replicasets_apps=[
                replica_set("web-7f2", condition("ReplicaFailure", "True", "FailedCreate", quota_message())),
                replica_set("other-1"),
            ],
            nodes=[node("node-1", unschedulable=True)],  # Decoy.
        ),
        (
            "pod shop/web-7f2-x4k2p was not created: ResourceQuota small is exhausted",
            "raise requests.cpu to 5 in ResourceQuota small",
            "(whoever grants the namespace's quota)",
        ),
        "kubectl -n shop patch resourcequota small --type=merge -p "
        """'{"spec":{"hard":{"requests.cpu":"5"}}}'""",
        decoy="cordon",
        stage="refused",
    ),
    # Bound and not ready.
    "command": Trouble(
        started(
            reported(
                waiting=BACK_OFF,
                restarts=3,
                last=ended(127, "StartError", "executable file not found in $PATH: nosuch"),
            ),
            spec={"command": ["nosuch", "-v"]},
            events=[event("Unhealthy", "Readiness probe failed: refused")],  # Decoy.
        ),
        (
            "is not ready: the command 'nosuch' of container web cannot be started",
            "correct the command of container web",
        ),
        decoy="probe",
        stage="not-ready",
    ),
    "config key": Trouble(
        started(
            reported(
                waiting={"reason": "CreateContainerConfigError", "message": 'configmap "settings" not found'}
            ),
            spec=from_key("configMapKeyRef", "settings", "LEVEL"),
            events=[event("Unhealthy", "Readiness probe failed: refused", ago_s=2)],
        ),
        (
            "container web needs key LEVEL of ConfigMap settings, which does not exist",
            "create ConfigMap settings with key LEVEL",
        ),
        "kubectl -n shop create configmap settings --from-literal=LEVEL=VALUE",
        decoy="probe",
    ),
    "secret key": Trouble(
        started(
            reported(
                waiting={
                    "reason": "CreateContainerConfigError",
                    "message": 'couldn\'t find key TOKEN in secret "login"',
                }
            ),
            spec=from_key("secretKeyRef", "login", "TOKEN"),
            secrets=[{"metadata": {"namespace": "shop", "name": "login"}, "data": {"OTHER": ""}}],
        ),
        (
            "container web needs key TOKEN of Secret login, which has no such key",
            "add key TOKEN to Secret login",
        ),
        """kubectl -n shop patch secret login --type=merge -p '{"stringData":{"TOKEN":"VALUE"}}'""",
        decoy="cordon",
    ),
    "image": Trouble(
        started(
            reported(waiting={"reason": "ErrImageNeverPull", "message": 'no local command for image "web:1"'})
        ),
        (
            "image 'web:1' of container web cannot be pulled (ErrImageNeverPull",
            "correct the image of container web",
        ),
        decoy="cordon",
    ),
    "readiness": Trouble(
        started(
            reported(running=RUNS, restarts=1, last=ended(1)),  # Decoy: it crashed once, long ago.
            condition("Starting", reason="WaitingForProbe", message="web: readiness probe failed: HTTP 503"),
            spec={"readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}}},
        ),
        ("the readiness probe of container web fails: HTTP 503", "answer GET :8080/ready"),
        "kubectl -n shop logs web -c web",
        decoy="ends with code",
    ),
    "liveness": Trouble(
        started(
            reported(
                waiting=BACK_OFF,
                restarts=4,
                last=ended(
                    143,
                    "LivenessProbeFailed",
                    "Container web failed liveness probe, will be restarted: HTTP 500",
                ),
            ),
            spec={"livenessProbe": {"httpGet": {"path": "/live", "port": 8080}}, "readinessProbe": {}},
            events=[event("Unhealthy", "Readiness probe failed: refused", ago_s=2)],
        ),
        (
            "the liveness probe of container web fails, so it is restarted (restarted 4 times): HTTP 500",
            "GET :8080/live",
        ),
        decoy="readiness",
    ),
    "crash loop": Trouble(
        started(
            reported(waiting=BACK_OFF, restarts=7, last=ended(3, message="no such table: orders")),
            events=[event("Unhealthy", "Readiness probe failed: refused", ago_s=2)],
        ),
        (
            "container web ends with code 3 (restarted 7 times): no such table: orders",
            "kubectl -n shop logs web -c web -p",
        ),
        "kubectl -n shop logs web -c web -p",
        decoy="probe",
    ),
    "memory": Trouble(
        started(
            reported(
                waiting=BACK_OFF,
                restarts=2,
                last=ended(137, "OOMKilled", "memory peak 67108864 of the limit 67108864 bytes", signal=9),
            ),
            spec={"resources": {"requests": {"cpu": "1"}, "limits": {"memory": "64Mi"}}},
            events=[event("Unhealthy", "Liveness probe failed: refused", ago_s=2)],
        ),
        (
            "container web was killed for memory: its limit is 64Mi, memory peak 67108864 of the limit",
            "to 128Mi",
        ),
        "kubectl -n shop patch pod web --type=json -p "
        """'[{"op":"replace","path":"/spec/containers/0/resources/limits/memory","value":"128Mi"}]'"""
        " --dry-run=client -o json | kubectl replace --force -f -",
        decoy="probe",
    ),
    "init container": Trouble(
        evidence(
            pods=[
                pod(
                    "web",
                    container("web"),
                    on="node-1",
                    initContainers=[container("setup")],
                    status=running(
                        reported("web", waiting={"reason": "PodInitializing"}),
                        initContainerStatuses=[
                            reported("setup", waiting=BACK_OFF, restarts=2, last=ended(2))
                        ],
                    ),
                )
            ],
            nodes=[node("node-1")],
        ),
        ("container setup ends with code 2 (restarted 2 times)",),
        "kubectl -n shop logs web -c setup -p",
        decoy="container web",
    ),
    "node lost": Trouble(
        evidence(
            pods=[
                pod(
                    on="node-1",
                    # Decoy: its agent's last report is of a failing probe.
                    status=running(
                        reported(running=RUNS),
                        conditions=[
                            condition("Ready", "False", "NodeUnreachable"),
                            condition(
                                "Starting",
                                reason="WaitingForProbe",
                                message="web: readiness probe failed: HTTP 503",
                            ),
                        ],
                    ),
                )
            ],
            nodes=[
                node(
                    "node-1",
                    conditions=[
                        condition("fathom.dev/Lost", message="no heartbeat; no connection"),
                        condition("Ready", "Unknown"),
                    ],
                )
            ],
        ),
        ("is not ready: its node node-1 is lost since", "no heartbeat", "repair node node-1"),
        "kubectl annotate node node-1 fathom.dev/declare-lost=true",
        decoy="probe",
        stage="not-ready",
    ),
    "brake": Trouble(
        evidence(
            pods=[pod(on="node-1", status=running(reported(running=RUNS)))],
            nodes=[
                node(
                    "node-1",
                    conditions=[
                        condition("fathom.dev/Suspect", message="no heartbeat"),
                        condition("fathom.dev/Held", reason="ManySilent", message=MANY),
                    ],
                )
            ],
        ),
        (f"is suspect since {at(60)}: no heartbeat; the brake on node actions holds: {MANY}",),
        """echo '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"fathom-system","""
        """"name":"node-brake"},"data":{"share_percent":"100"}}' | kubectl apply -f -""",
        stage="control-plane",
    ),
    # Not serving, and the end.
    "gateway": Trouble(
        evidence(
            pods=[
                pod(
                    on="node-1",
                    status=running(
                        reported(running=RUNS, ready=True),
                        conditions=[
                            *READY,
                            condition(
                                "fathom.dev/Serving",
                                "False",
                                "NotReached",
                                "the gateway cannot connect to the pod",
                            ),
                        ],
                    ),
                )
            ],
            nodes=[node("node-1"), node("node-2", unschedulable=True)],
            services=[
                {
                    "metadata": {"namespace": "shop", "name": "web"},
                    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
                }
            ],
        ),
        (
            "is ready and gets no requests: the gateway cannot connect to the pod",
            "listen on 10.0.0.7, port 8080",
        ),
        "kubectl -n shop logs web",
        decoy="cordon",
        stage="not-serving",
    ),
    "preempted victim": Trouble(
        evidence(
            pods=[
                pod(
                    on="node-1",
                    meta={"deletionTimestamp": at(-20)},
                    # Decoy: it was crash-looping, too.
                    status=running(
                        reported(waiting=BACK_OFF, restarts=2, last=ended(2)),
                        conditions=[
                            condition(
                                "DisruptionTarget", reason="PreemptionByScheduler", message="preempted"
                            ),
                            NOT_READY,
                        ],
                    ),
                ),
                pod("big", priority=100),
            ],
            nodes=[node("node-1")],
            records=(
                decided(
                    "preempt", about="big", node="node-1", priority=100, victims=("shop/web: preempted",)
                ),
            ),
        ),
        ("is being preempted: pod shop/big of priority 100 takes its place on node-1; its own is 0",),
        decoy="ends with code",
        stage="displaced",
    ),
}


@pytest.mark.parametrize("name", TROUBLES)
def test_the_first_line_names_the_cause_and_not_the_decoy(name: str) -> None:
    trouble = TROUBLES[name]
    explanation = why(trouble.evidence)
    for expected in trouble.names:
        assert expected in explanation.summary
    if trouble.decoy:
        assert trouble.decoy not in explanation.summary
    if trouble.command:
        assert explanation.change is not None
        assert explanation.change.command == trouble.command
    assert not explanation.as_wanted
    assert trouble.stage in {"", explanation.stage}


# Where only Kubernetes' own words tell: other controllers' Events and conditions about a quota.
TOLD_IN_WORDS = frozenset({"ResourceQuota"})


def reworded(value: Any) -> Any:
    """The same with every message and every detail in other words."""
    if isinstance(value, dict):
        return {
            name: "in anderen Worten" if name in {"message", "note"} and item else reworded(item)
            for name, item in value.items()
        }
    return [reworded(each) for each in value] if isinstance(value, list) else value


def reworded_record(record: Recorded) -> Recorded:
    decision = msgspec.structs.replace(record.kept.decision, message="entschieden")
    outcomes = tuple(msgspec.structs.replace(each, message="getan") for each in record.kept.outcomes)
    return msgspec.structs.replace(record, kept=KeptDecision(decision, outcomes))


@pytest.mark.parametrize("name", sorted(TROUBLES.keys() - TOLD_IN_WORDS))
def test_an_answer_does_not_depend_on_how_anything_is_worded(name: str) -> None:
    case = TROUBLES[name].evidence
    assert isinstance(case.objects, HeldObjects)
    objects = HeldObjects(
        {resource: [reworded(obj) for obj in case.objects.list(resource)] for resource in case.objects.kinds}
    )
    after = why(
        msgspec.structs.replace(case, objects=objects, decisions=tuple(map(reworded_record, case.decisions)))
    )
    before = why(case)
    assert (after.stage, after.verdict, after.kind, after.change) == (
        before.stage, before.verdict, before.kind, before.change,
    )  # fmt: skip


def test_there_are_at_least_two_dozen_troubles() -> None:
    assert len(TROUBLES) >= 24


@pytest.mark.parametrize("name", TROUBLES)
def test_the_first_line_says_nothing_twice(name: str) -> None:
    explanation = why(TROUBLES[name].evidence)
    cause = explanation.cause.rstrip(". ")
    assert explanation.summary.count(cause) == 1
    assert explanation.change is None or explanation.change.what not in cause


def test_the_node_that_a_pod_asked_for_has_the_label_of_its_own_host() -> None:
    """It asked for b: that b is full is the answer, not that it asked for b."""
    case = evidence(
        pods=[pod(cpu="2", nodeSelector={HOST: "b"})], nodes=[node("a"), node("b", cpu="1"), node("c")]
    )
    assert why(case).cause == "1 of 3 nodes have too little free cpu (NodeResourcesFit)"
