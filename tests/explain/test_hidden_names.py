"""No answer tells a user the name of a node, or of another tenant's object, that they may not read.

The evidence has marked names in every text that anybody could have written: conditions, Events, decisions,
outcomes, audit entries, gaps, states of processes. Whatever the question, no mark may be in its answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import msgspec
import pytest
from tests.deep import first_few
from tests.explain import evidence_of as builders
from tests.explain.evidence_of import NOW_S, RESOURCES, at, condition, lease

from fathom.ask.decisions import VisibleParts, decision_object
from fathom.ask.kept_cluster import KeptCluster
from fathom.ask.table import ANSWERS
from fathom.explain.coupling.answer import UnknownActor
from fathom.explain.evidence import (
    CacheObservation,
    Evidence,
    Gap,
    HeldObjects,
    ObjectRef,
    ProcessState,
    Recorded,
)
from fathom.explain.hidden_names import A_NODE, A_TENANT, ANOTHER, HiddenNames, hidden_from
from fathom.kinds.coupling import COUPLINGS, CouplingSpec
from fathom.kinds.explanation import EXPLANATIONS, ExplanationSpec
from fathom.kinds.question import AskedObject
from fathom.kinds.timeline import TIMELINES, TimelineSpec
from fathom.model.audit import AuditEntry, Verdict
from fathom.model.cause import WakeCause
from fathom.model.decision import (
    Considered,
    Decision,
    KeptDecision,
    Outcome,
    Rejection,
    SeenVersions,
    Subject,
)
from fathom.model.errors import ApiError
from fathom.schedule.loop.user_rules import installed_rules

Obj = dict[str, Any]
OWN, OTHER = "shop", "secretspace"
# A node that exists, one that is gone and one that only a pod still names.
NODES = ("secretnode-1", "secretnode-2", "secretnode-gone")
FOREIGN_POD, FOREIGN_TENANT, FOREIGN_OVERRIDE = "secretpod-1", "secrettenant", "secretoverride"
TEXTS = (
    "bound to {node}",
    "Successfully assigned shop/web-1 to {node}",
    "{node}: node(s) had untolerated taint, {node} too",
    "evicted for {other}/{pod}",
    "pods/{other}/{pod} holds the port on {node}.",
    "TenantQuota {tenant} lends, tenant {tenant}: quota/{tenant} is used up",
    "in namespace {other}",
    "override {other}/{override} decides; ({node})",
    "/api/v1/namespaces/{other}/pods/{pod}",
    "dial tcp {node}.example.com:10250: no route",
    "lease kube-node-lease/{node} of system:node:{node}",
)
READERS = {
    "neither nodes nor other tenants": (False, frozenset({OWN})),
    "nodes, but no other tenants": (True, frozenset({OWN})),
    "all tenants, but no nodes": (False, None),
}


def uid(kind: str, namespace: str, name: str) -> str:
    """A UID tells no name."""
    return str(uuid5(NAMESPACE_URL, f"{kind}/{namespace}/{name}"))


def obj(kind: str, name: str, *, namespace: str = OWN, **fields: Any) -> Obj:
    made = builders.obj(kind, name, namespace=namespace, **fields)
    made["metadata"]["uid"] = uid(kind, namespace, name)
    return made


class Marked:
    """Writes texts with marked names, at random."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def node(self) -> str:
        return self.rng.choice(NODES)

    def text(self) -> str:
        return self.rng.choice(TEXTS).format(
            node=self.node(),
            other=OTHER,
            pod=FOREIGN_POD,
            tenant=FOREIGN_TENANT,
            override=FOREIGN_OVERRIDE,
        )

    def condition(self, type_: str) -> Obj:
        status, reason = self.rng.choice(("True", "False")), self.rng.choice(("Waiting", "QuotaExceeded"))
        return condition(type_, status, reason, self.text())

    def conditions(self, *types: str) -> list[Obj]:
        return [self.condition(type_) for type_ in types]


EVENTS = (("Pod", "web-a"), ("Pod", "web-c"), ("Deployment", "web"), ("Job", "once"))


def objects_of(marked: Marked) -> list[Obj]:
    web = obj(
        "Deployment",
        "web",
        spec={"replicas": 4, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE},
        status={"conditions": marked.conditions("Available", "Progressing", "ReplicaFailure")},
    )
    web_set = obj(
        "ReplicaSet",
        "web-1",
        owner=web,
        spec={"replicas": 4, "template": TEMPLATE},
        status={"conditions": marked.conditions("ReplicaFailure")},
    )
    job = obj(
        "Job",
        "once",
        spec={"completions": 1, "template": TEMPLATE},
        status={"conditions": marked.conditions("Failed"), "failed": 1},
    )
    return [
        web, web_set, job, *pods_of(marked, web_set, job), *steering_of(marked), *nodes_of(marked),
        obj("Namespace", OWN, namespace="", metadata={"labels": {"fathom.dev/tenant": "shop-tenant"}}),
        obj("Namespace", OTHER, namespace="", metadata={"labels": {"fathom.dev/tenant": FOREIGN_TENANT}}),
        lease("scheduler", renewed_s=marked.rng.choice((1, 500))),
        *[event(marked, kind, name) for kind, name in EVENTS],
    ]  # fmt: skip


TEMPLATE: Obj = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "web:1"}]},
}


def pods_of(marked: Marked, owner: Obj, job: Obj) -> list[Obj]:
    def pod(name: str, namespace: str = OWN, maker: Obj | None = None, **spec: Any) -> Obj:
        containers = [{"name": "main", "image": "web:1", "resources": {"requests": {"cpu": "900m"}}}]
        state = marked.rng.choice(("waiting", "terminated"))
        statuses = [
            {
                "name": "main",
                "restartCount": 3,
                "state": {state: {"reason": "Error", "message": marked.text(), "exitCode": 1}},
                "lastState": {
                    "terminated": {"reason": "OOMKilled", "message": marked.text(), "exitCode": 137}
                },
            }
        ]
        types = ("PodScheduled", "SchedulingRetrying", "Ready", "DisruptionTarget", "BlockedByPolicy")
        return obj(
            "Pod",
            name,
            namespace=namespace,
            owner=maker,
            metadata={"labels": {"app": "web"}},
            spec={"containers": containers, **spec},
            status={
                "phase": "Pending" if not spec.get("nodeName") else "Running",
                "conditions": marked.conditions(*types),
                "message": marked.text(),
                "nominatedNodeName": marked.rng.choice(("", NODES[0])),
                **({"containerStatuses": statuses} if spec.get("nodeName") else {}),
            },
        )

    return [
        pod("web-a", maker=owner, nodeName=NODES[0]),
        pod("web-b", maker=owner, nodeName=NODES[1]),
        pod("web-c", maker=owner),
        pod("web-d", maker=owner, schedulingGates=[{"name": "example.com/wait"}]),
        pod("once-1", maker=job, nodeName=NODES[2]),
        pod(FOREIGN_POD, OTHER, nodeName=NODES[0]),
    ]


def steering_of(marked: Marked) -> list[Obj]:
    """Services, autoscalers, budgets, quotas, policies, overrides: own ones and others'."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    override_spec = {
        "target": f"node/{NODES[0]}",
        "reason": marked.text(),
        "expiresAfter": "1h",
        "changes": {"cordon": True},
    }
    acks = [{"controller": "scheduler", "state": "Declined", "reason": marked.text()}]
    return [
        obj("Service", "web", spec={"selector": {"app": "web"}, "ports": [{"port": 80}]}),
        obj(
            "HorizontalPodAutoscaler",
            "web",
            spec={"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 9},
            status={"conditions": marked.conditions("AbleToScale", "ScalingActive", "ScalingLimited")},
        ),
        obj(
            "PodDisruptionBudget",
            "web",
            spec={"minAvailable": 4, "selector": {"matchLabels": {"app": "web"}}},
            status={"disruptionsAllowed": 0, "conditions": marked.conditions("DisruptionAllowed")},
        ),
        obj("ResourceQuota", "small", spec={"hard": {"pods": "4"}}, status={"used": {"pods": "4"}}),
        *[
            obj(
                "TenantQuota",
                name,
                namespace="",
                spec={},
                status={"conditions": marked.conditions("Ready")},
                metadata={"resourceVersion": revision},
            )
            for name, revision in (("shop-tenant", "8"), (FOREIGN_TENANT, "90"))
        ],
        *[
            obj(
                "SchedulerOverride",
                name,
                namespace=namespace,
                spec=override_spec,
                status={
                    "expiresAt": at(600),
                    "author": "dora",
                    "acknowledgements": acks,
                    "conditions": marked.conditions("Active", "Ready"),
                },
            )
            for name, namespace in (("freeze", OWN), (FOREIGN_OVERRIDE, OTHER))
        ],
        obj(
            "PolicyRollout",
            "policies",
            namespace="",
            spec={"from": "v4", "to": "v5"},
            status={
                "phase": "RolledBack",
                "message": marked.text(),
                "conditions": marked.conditions("Ready"),
            },
        ),
        obj(
            "WorkloadProgress",
            "web",
            spec={"workload": {"kind": "Deployment", "name": "web", "uid": uid("Deployment", OWN, "web")}},
            status={"conditions": marked.conditions("RepairComplete", "Ready")},
        ),
    ]


def nodes_of(marked: Marked) -> list[Obj]:
    room = {"cpu": "1", "memory": "8Gi", "pods": "110"}
    return [
        obj(
            "Node",
            name,
            namespace="",
            metadata={"labels": {"kubernetes.io/hostname": name}},
            spec={"taints": [{"key": "full", "effect": "NoSchedule", "value": name}]} if tainted else {},
            status={
                "capacity": room,
                "allocatable": room,
                "conditions": [condition("Ready", "True", "ok", marked.text())],
            },
        )
        for name, tainted in ((NODES[0], False), (NODES[1], True))
    ]


def event(marked: Marked, kind: str, name: str) -> Obj:
    involved = {"kind": kind, "namespace": OWN, "name": name, "uid": uid(kind, OWN, name)}
    return obj(
        "Event",
        f"{name}.{marked.rng.randrange(100)}",
        involvedObject=involved,
        reason=marked.rng.choice(("Scheduled", "FailedScheduling", "Killing", "FailedCreate")),
        message=marked.text(),
        reportingComponent=f"agent/{marked.node()}",
        firstTimestamp=at(-100),
        lastTimestamp=at(-50),
        count=2,
    )


def records_of(marked: Marked, about: list[Obj]) -> tuple[Recorded, ...]:
    records = []
    for number, subject in enumerate(about):
        meta = subject["metadata"]
        foreign = Considered(
            FOREIGN_OVERRIDE, 3, True, resource="scheduleroverrides.fathom.dev", namespace=OTHER
        )
        quota = Considered(FOREIGN_TENANT, 3, True, resource="tenantquotas.fathom.dev")
        decision = Decision(
            id=f"d-{number}",
            time_ns=(NOW_S - 100 + number) * 10**9,
            controller=marked.rng.choice(("scheduler", f"agent/{NODES[0]}", "deployment", "autoscaling")),
            subject=Subject(RESOURCES[subject["kind"]], meta.get("namespace", ""), meta["name"], meta["uid"]),
            verdict=marked.rng.choice(("bind", "unschedulable", "preempt", "delete", "nothing")),
            cause=marked.rng.choice(
                (
                    WakeCause("event", f"added {NODES[0]}", "nodes", "", NODES[0], 3),
                    WakeCause("event", marked.text(), "pods", OTHER, FOREIGN_POD, 3),
                    WakeCause("timer", marked.text()),
                )
            ),
            seen={"Pod": SeenVersions(5), "Node": SeenVersions(5), "TenantQuota": SeenVersions(5)},
            actions=(marked.text(), marked.text()),
            overrides=(foreign,),
            quotas=(quota,),
            filters={marked.text(): 2},
            rejected=(Rejection("TenantQuota", "quota", 2, "RaiseQuota", f"quota/{FOREIGN_TENANT}"),),
            place=(3, 9),
            scores={NODES[0]: 5, NODES[2]: 3},
            node=marked.node(),
            nodes=3,
            victims=(f"{OTHER}/{FOREIGN_POD}: lower priority on {NODES[0]}", "shop/web-b: lower priority"),
            message=marked.text(),
            condition=f"Ready=False/{marked.rng.choice(('Waiting', 'Blocked'))}",
        )
        outcomes = tuple(
            Outcome(
                id=decision.id,
                time_ns=decision.time_ns,
                result="committed" if marked.rng.random() < 0.5 else "rejected",
                revision=40 + number,
                object=target,
                message=marked.text(),
                check="QuotaExceeded",
            )
            for target in (decision.subject, Subject("pods", OTHER, FOREIGN_POD, "uid-x"))
        )
        reasons = {name: marked.text() for name in NODES}
        process = marked.rng.choice(("deciders", f"agent of {NODES[0]}"))
        records.append(Recorded(process, KeptDecision(decision, outcomes), reasons))
    return tuple(records)


def writes_of(marked: Marked, about: list[Obj]) -> tuple[AuditEntry, ...]:
    return tuple(
        AuditEntry(
            id=f"a-{number}",
            time=at(-90 + number),
            user=marked.rng.choice(("jane", f"system:node:{marked.node()}")),
            actor=marked.rng.choice(("", f"agent/{marked.node()}", "scheduler")),
            verb=marked.rng.choice(("create", "patch", "delete")),
            resource=RESOURCES[subject["kind"]],
            namespace=subject["metadata"].get("namespace", ""),
            name=subject["metadata"]["name"],
            uid=subject["metadata"]["uid"],
            code=marked.rng.choice((200, 403)),
            user_agent=marked.text(),
            admission=(Verdict("quota", denied=marked.text()),),
            revision=40 + number,
            decision=f"d-{number}",
            changed=("spec.nodeName", "status.conditions"),
        )
        for number, subject in enumerate(about)
    )


def evidence_of(marked: Marked, subject: Obj, objects: list[Obj]) -> Evidence:
    held: dict[str, list[Obj]] = {}
    for each in objects:
        held.setdefault(RESOURCES[each["kind"]], []).append(each)
    about = [each for each in objects if each["kind"] not in {"Event", "Namespace", "Lease"}]
    meta = subject["metadata"]
    caches = {"Pod": SeenVersions(5), "Node": SeenVersions(5)}
    return Evidence(
        subject=ObjectRef(RESOURCES[subject["kind"]], meta.get("namespace", ""), meta["name"], meta["uid"]),
        objects=HeldObjects(held, revision=99),
        decisions=records_of(marked, about),
        audit=writes_of(marked, about),
        processes=(
            ProcessState(process="deciders", parts=("scheduler",), leads=True, caches=caches),
            ProcessState(process=f"agent of {NODES[0]}", parts=("agent",), answered=False),
        ),
        gaps=(Gap(f"journal of agent of {NODES[0]}", marked.text()),),
        observations=(CacheObservation(process="scheduler", kind="TenantQuota", revision=8, time_ns=NOW_S),),
        now_ns=NOW_S * 10**9,
    )


Ask = Callable[[Evidence], msgspec.Struct | None]


def asks() -> dict[str, Ask]:
    """Every question that can be asked about an object."""

    def ask(kind: str, spec: Any) -> Ask:
        def answered(evidence: Evidence) -> msgspec.Struct | None:
            try:
                return ANSWERS[kind].answer(evidence, spec, KeptCluster(installed_rules))
            except (ApiError, UnknownActor) as error:
                assert_unmarked(str(error), evidence)
                return None

        return answered

    return {
        "why": ask(EXPLANATIONS, ExplanationSpec()),
        "status": ask(EXPLANATIONS, ExplanationSpec(view="status")),
        "timeline": ask(TIMELINES, TimelineSpec()),
        "timeline, whole": ask(TIMELINES, TimelineSpec(fold=False)),
        "coupling": ask(COUPLINGS, CouplingSpec(subject=AskedObject(kind="x", name="x"))),
    }


def assert_unmarked(text: str, evidence: Evidence) -> None:
    text = text.lower()
    marks = []
    if not evidence.may_read_nodes:
        marks += ["secretnode"]
    if evidence.readable is not None:
        marks += [OTHER, "secretpod", FOREIGN_TENANT, FOREIGN_OVERRIDE]
    for mark in marks:
        place = text.find(mark)
        assert place < 0, text[max(0, place - 200) : place + 80]


SUBJECTS = (
    "Deployment/web", "ReplicaSet/web-1", "Job/once", "Pod/web-a", "Pod/web-b", "Pod/web-c", "Pod/web-d",
    "Pod/once-1", "Service/web", "HorizontalPodAutoscaler/web", "PodDisruptionBudget/web",
    "SchedulerOverride/freeze", "PolicyRollout/policies",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("reader", first_few(READERS, 1))
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.full)])
def test_no_answer_names_what_its_user_may_not_read(seed: int, reader: str) -> None:
    may_read_nodes, readable = READERS[reader]
    answers = 0
    for number, name in enumerate(SUBJECTS):
        marked = Marked(seed * 100 + number)
        objects = objects_of(marked)
        kind, _, wanted = name.partition("/")
        (subject,) = [each for each in objects if each["kind"] == kind and each["metadata"]["name"] == wanted]
        evidence = msgspec.structs.replace(
            evidence_of(marked, subject, objects), may_read_nodes=may_read_nodes, readable=readable
        )
        hidden = hidden_from(evidence)
        for question, ask in asks().items():
            answer = ask(evidence)
            if answer is None:
                continue
            shown = hidden.value(msgspec.to_builtins(answer))
            assert_unmarked(f"{name} {question} {msgspec.json.encode(shown).decode()}", evidence)
            answers += 1
    assert answers > len(SUBJECTS) * 3


@pytest.mark.parametrize("reader", READERS)
def test_what_is_stuck_and_decisions_name_nothing_that_the_user_may_not_read(reader: str) -> None:
    may_read_nodes, readable = READERS[reader]
    for seed in range(6):
        marked = Marked(seed)
        objects = objects_of(marked)
        whole = evidence_of(marked, objects[0], objects)
        evidence = msgspec.structs.replace(
            whole,
            subject=ObjectRef("namespaces", "", OWN),
            may_read_nodes=may_read_nodes,
            readable=readable,
        )
        stuck = ANSWERS[EXPLANATIONS].answer(
            evidence, ExplanationSpec(view="stuck"), KeptCluster(installed_rules)
        )
        shown = hidden_from(evidence).value(msgspec.to_builtins(stuck))
        assert shown["items"]
        assert_unmarked(msgspec.json.encode(shown).decode(), evidence)
        visible = VisibleParts(may_read_nodes, readable, hidden_from(evidence))
        for record in evidence.decisions:
            subject = record.kept.decision.subject
            if subject.namespace == OWN:
                assert_unmarked(msgspec.json.encode(decision_object(record, visible)).decode(), evidence)


def test_a_user_who_may_read_everything_reads_every_name() -> None:
    marked = Marked(1)
    objects = objects_of(marked)
    evidence = evidence_of(marked, objects[0], objects)
    hidden = hidden_from(evidence)
    assert not hidden
    text = f"pod {OTHER}/{FOREIGN_POD} on {NODES[0]}"
    assert hidden.text(text) == text
    answers = [answer for ask in asks().values() if (answer := ask(evidence)) is not None]
    shown = str([hidden.value(msgspec.to_builtins(answer)) for answer in answers])
    for mark in ("secretnode", OTHER, FOREIGN_TENANT):  # Else that they are hidden would prove nothing.
        assert mark in shown


def test_names_are_hidden_as_whole_words_and_the_users_own_stay() -> None:
    hidden = HiddenNames(nodes=frozenset({"node-1"}), namespaces=frozenset({"team"}))
    assert (
        hidden.text("web-node-1 runs on node-1, not on node-10.")
        == f"web-node-1 runs on {A_NODE}, not on node-10."
    )
    assert hidden.text("pod team/web, pod shop/web") == f"pod {ANOTHER}, pod shop/web"
    assert hidden.text("node-1.example.com") == f"{A_NODE}.example.com"
    assert hidden.value({"node-1": ["x node-1"], "n": 3}) == {A_NODE: [f"x {A_NODE}"], "n": 3}


def test_a_name_that_is_a_plain_word_is_hidden_only_where_it_is_a_name() -> None:
    hidden = HiddenNames(
        namespaces=frozenset({"test"}), words=frozenset({"test", "team-b"}), tenants=frozenset({"batch"})
    )
    assert hidden.text("the test failed in batch mode") == "the test failed in batch mode"
    assert hidden.text("in namespace test, for tenant batch") == (
        f"in namespace ({ANOTHER}), for tenant ({A_TENANT})"
    )
    assert hidden.value({"namespace": "test", "of": "team-b"}) == {"namespace": ANOTHER, "of": ANOTHER}
    assert hidden.text("lent to team-b.") == f"lent to {ANOTHER}."


def test_a_sentence_about_a_hidden_node_reads_as_one() -> None:
    hidden = HiddenNames(nodes=frozenset({"n1"}))
    assert hidden.text("its node n1 is lost: repair node n1, or ask n1") == (
        "its node is lost: repair a node, or ask a node"
    )
    assert hidden.text("its node n2, node n1.example") == "its node n2, node a node.example"
