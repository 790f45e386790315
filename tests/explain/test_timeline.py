"""Timelines from records: lesson 019's example, and what must not be joined."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from tests.explain.lesson_records import (
    AUDIT,
    DECISIONS,
    DEPLOYMENTS,
    OBJECTS,
    POD,
    REPLICA_SETS,
    SET,
    SPACE,
    TAPE,
    WORKLOAD,
    at,
    audit,
    changed,
    decided,
    lesson,
    outcome,
    thing,
    uid,
)

from fathom.explain.evidence import Evidence, Gap, HeldObjects, ObjectRef, Recorded
from fathom.explain.timeline import asked
from fathom.explain.timeline.answer import answer
from fathom.explain.timeline.lines import as_text, gap_lines, lines_of, time_of_day
from fathom.explain.timeline.timeline import Edge, Entry, Timeline, TimelineSpec
from fathom.explain.timeline.wanted import wanted, wanted_more
from fathom.kinds.scheduler_override import OVERRIDES
from fathom.kinds.tenant_quota import TENANT_QUOTAS
from fathom.model.audit import AuditEntry, Verdict
from fathom.model.cause import WakeCause
from fathom.model.decision import KeptDecision, Subject
from fathom.model.times import micro_timestamp

WHOLE = TimelineSpec()


def text_of(timeline: Timeline) -> list[str]:
    return list(as_text(lines_of(timeline), show_time=time_of_day, quiet_s=10))


def texts(timeline: Timeline) -> list[str]:
    return [f"{entry.actor} {entry.text}" for entry in timeline.entries]


def edges(timeline: Timeline) -> set[tuple[str, str]]:
    return {(edge.cause, edge.effect) for edge in timeline.edges}


LESSON = """\
  1  12:00:00.000  alice                   sets spec.replicas of deployment risk-api
  2  12:00:00.900  replicasets             decides to create for replicaset risk-api-7f2: 7 of 8 pods  (because of 1)
  3  12:00:01.000  replicasets             creates pod risk-api-7f2-042  (because of 2)
  4  12:00:01.000  pod risk-api-7f2-042    enters the queue of scheduler, woken by event pods risk/risk-api-7f2-042\
 at 918805; taken from the queue as 2 of 5  (because of 3)
  5  12:00:04.000  scheduler               reads its caches for pod risk-api-7f2-042: Node at revision 918812,\
 Pod at revision 918811 (newest change 918812), TenantQuota at revision 918812
  6  12:00:04.000  rule PodTopologySpread  rejects 3 nodes in zone-a and zone-b for pod risk-api-7f2-042\
 (node-a1, node-a2, node-b1): node(s) didn't match pod topology spread constraints
  7  12:00:04.000  rule TenantQuota        rejects 2 nodes in zone-c for pod risk-api-7f2-042\
 (node-c11, node-c12): quota/risk-zone-c
  8  12:00:04.000  scheduler               finds no node for pod risk-api-7f2-042: 0/5 nodes are available:\
 insufficient eligible capacity  (because of 4, 5, 6, 7)
  9  12:00:05.000  scheduler               reports the Event FailedScheduling of pod risk-api-7f2-042: 0/5 nodes\
 are available: insufficient eligible capacity  (probably because of 8)
 10  12:00:06.000  autoscalers             decides to change for horizontalpodautoscaler risk-api-scaler:\
 low ready replicas: 7 of 8 are ready; desired capacity goes from 8 to 9
 11  12:00:06.100  autoscalers             sets spec.replicas of deployment risk-api to 9  (because of 10)
 12  12:00:07.000  quota-admin             sets spec.limits[0].resources.cpu of tenantquota risk
 13  12:00:09.000  scheduler               receives revision 918946 of tenantquota risk in its cache  (because\
 of 12)
 14  12:00:10.000  scheduler               chooses node-c12 for pod risk-api-7f2-042 (attempt 2), the best of\
 2 nodes that fit  (because of 12, 13)
 15  12:00:10.100  scheduler               binds pod risk-api-7f2-042 to node-c12  (because of 14)"""  # noqa: E501


def test_the_lessons_example_comes_out_with_its_causes() -> None:
    assert text_of(answer(lesson(), WHOLE)) == LESSON.splitlines()


@pytest.mark.parametrize("seed", range(20))
def test_the_order_in_which_sources_answer_does_not_matter(seed: int) -> None:
    shuffled = random.Random(seed)
    sources: dict[str, Any] = {}
    for field, records in (("decisions", DECISIONS), ("audit", AUDIT), ("observations", TAPE)):
        sources[field] = tuple(shuffled.sample(records, len(records)))
    assert answer(lesson(**sources), WHOLE) == answer(lesson(), WHOLE)


def test_the_whole_timeline_survives_json() -> None:
    timeline = answer(lesson(), WHOLE)
    assert msgspec.json.decode(msgspec.json.encode(timeline), type=Timeline) == timeline


def test_without_a_tape_the_first_decision_that_saw_a_write_stands_for_its_arrival() -> None:
    timeline = answer(lesson(observations=()), WHOLE)
    (seen,) = [entry for entry in timeline.entries if entry.id.startswith("cache:scheduler:")]
    assert (seen.time, seen.text) == (
        micro_timestamp(at(10)),
        "receives revision 918946 of tenantquota risk in its cache"
        ", at the latest now: decision place-2 had seen it",
    )


def test_a_decision_that_had_not_received_a_write_says_so() -> None:
    early = audit(3, "quota-admin", "patch", TENANT_QUOTAS, SPACE, 918830, changed=("spec.limits[0].zone",))
    timeline = answer(lesson(audit=(*AUDIT, early)), WHOLE)
    (read,) = [entry for entry in timeline.entries if entry.id == "cache:place-1"]
    assert read.text.endswith("it has not received revision 918830 of tenantquota risk")


def test_records_of_a_namesake_are_not_joined() -> None:
    """A pod of the same name was there before: its write, its decision and its Event have another UID."""
    old = msgspec.structs.replace(
        audit(0.2, "bob", "delete", "pods", POD, 918790), id="audit-old", uid="uid-of-old-pod"
    )
    decision = decided(0.1, "place-0", "scheduler", "pods", POD, "unschedulable", nodes=5)
    of_old = msgspec.structs.replace(
        decision, subject=msgspec.structs.replace(decision.subject, uid="uid-of-old-pod")
    )
    event = {
        **OBJECTS["events"][0],
        "metadata": {"name": "old", "namespace": SPACE, "uid": "uid-of-old-event"},
        "involvedObject": {"name": POD, "namespace": SPACE, "uid": "uid-of-old-pod"},
    }
    evidence = lesson(
        audit=(*AUDIT, old),
        decisions=(*DECISIONS, Recorded("scheduler", KeptDecision(of_old))),
        objects=HeldObjects({**OBJECTS, "events": [*OBJECTS["events"], event]}),
    )
    assert answer(evidence, WHOLE) == answer(lesson(), WHOLE)


def test_of_two_pods_of_a_name_that_are_gone_the_one_that_was_written_last_is_meant() -> None:
    """The answer to the removal of the first one took 16 s, and its agent decided about it until then."""
    removed = audit(40, "agent", "delete", "pods", "web-0", 919000)
    removed = msgspec.structs.replace(removed, uid="uid-first")
    created = audit(26, "controllers", "create", "pods", "web-0", 919001, changed=("*",))
    removed_too = audit(30, "agent", "delete", "pods", "web-0", 919002)
    stops = decided(41, "stop-1", "agent", "pods", "web-0", "stop")
    stops = msgspec.structs.replace(stops, subject=Subject("pods", SPACE, "web-0", "uid-first"))
    for decisions in (), (Recorded("agent", KeptDecision(stops)),):
        evidence = lesson(
            subject=ObjectRef("pods", SPACE, "web-0"),
            audit=(*AUDIT, created, removed_too, removed),
            decisions=decisions,
        )
        assert answer(evidence, WHOLE).subject.uid == uid("web-0")


def test_a_pod_that_is_gone_is_known_from_decisions_where_no_write_of_it_is_on_record() -> None:
    """The audit log lost its entries, and still has the removal of an earlier pod of the name."""
    removed = msgspec.structs.replace(audit(20, "agent", "delete", "pods", "web-0", 919000), uid="uid-first")
    binds = Recorded("scheduler", KeptDecision(decided(26, "bind-1", "scheduler", "pods", "web-0", "bind")))
    evidence = lesson(subject=ObjectRef("pods", SPACE, "web-0"), audit=(*AUDIT, removed), decisions=(binds,))
    assert answer(evidence, WHOLE).subject.uid == uid("web-0")


def test_the_removal_of_a_pod_wakes_its_owner_by_uid_not_by_name() -> None:
    """The cause has the pod's last revision. Two pods of that name were deleted; one is meant."""
    removed = msgspec.structs.replace(audit(20, "agent", "delete", "pods", POD, 918990), changed=())
    namesake = msgspec.structs.replace(removed, id="audit-x", uid="uid-x", revision=918960)
    woken = decided(
        20.1, "set-2", "replicasets", REPLICA_SETS, SET, "create",
        cause=changed("pods", POD, 918950, "deleted"),
    )  # fmt: skip
    evidence = lesson(
        audit=(*AUDIT, namesake, removed),
        decisions=(*DECISIONS, Recorded("controllers", KeptDecision(woken))),
    )
    caused = {cause for cause, effect in edges(answer(evidence, WHOLE)) if effect == "decision:set-2"}
    assert caused == {f"write:918990:pods/{SPACE}/{POD}"}


def test_a_refused_create_is_shown_for_the_object_whose_decision_it_was() -> None:
    refused = AuditEntry(
        id="audit-refused",
        time=micro_timestamp(at(2)),
        user="system:fathom:controllers",
        verb="create",
        resource="pods",
        namespace=SPACE,
        name=f"{SET}-043",
        code=403,
        decision="set-1",
        admission=(Verdict("ResourceQuota", denied="exceeded quota: room"),),
    )
    subject = ObjectRef(REPLICA_SETS, SPACE, SET)
    timeline = answer(lesson(subject=subject, audit=(*AUDIT, refused)), WHOLE)
    assert [text for text in texts(timeline) if f"{SET}-043" in text] == [
        f"admission plugin ResourceQuota refuses pod {SET}-043: exceeded quota: room",
        f"replicasets tries to create pod {SET}-043: the API server answers 403",
    ]
    assert ("decision:set-1", "audit:audit-refused") in edges(timeline)
    strangers = msgspec.structs.replace(refused, decision="of-somebody-else")
    others = answer(lesson(subject=subject, audit=(*AUDIT, strangers)), WHOLE)
    assert not [text for text in texts(others) if f"{SET}-043" in text]


def test_a_command_in_a_pod_is_told_without_its_words() -> None:
    begun = AuditEntry(
        id="r-1", time=micro_timestamp(at(20)), user="jane", verb="create", resource="pods", namespace=SPACE,
        name=POD, uid=uid(POD), subresource="exec", code=101, container="main", command=("echo", "secret"),
    )  # fmt: skip
    ended = msgspec.structs.replace(begun, id="r-1.end", time=micro_timestamp(at(22)), seconds=2.0)
    forwarded = msgspec.structs.replace(begun, id="r-2", subresource="portforward", container="", command=())
    timeline = answer(lesson(audit=(*AUDIT, begun, forwarded, ended)), WHOLE)
    assert [text for text in texts(timeline) if text.startswith("jane")] == [
        f"jane runs a command in container main of pod {POD}",
        f"jane forwards ports of pod {POD}",
        f"jane ends its exec into container main of pod {POD} after 2 s",
    ]


def test_a_write_that_the_audit_log_lacks_is_told_by_its_decisions_outcome() -> None:
    without = tuple(entry for entry in AUDIT if entry.revision != 918805)
    timeline = answer(lesson(audit=without), WHOLE)
    (created,) = [entry for entry in timeline.entries if entry.revision == 918805]
    assert (created.source, created.text) == (
        "decision",
        f"writes pod {POD}: create Pod {SPACE}/{POD}",
    )
    assert ("decision:set-1", created.id) in edges(timeline)


def test_a_condition_follows_the_only_write_that_can_have_changed_it() -> None:
    ready = {
        "type": "Ready", "status": "True", "reason": "Started", "observedGeneration": 1,
        "lastTransitionTime": "2026-11-16T12:00:11Z",
    }  # fmt: skip
    status = {"conditions": [ready]}
    pod = thing(POD, owner="ReplicaSet", revision=918960, spec={"nodeName": "node-c12"}, status=status)
    write = audit(
        11.6, "system:node:node-c12", "patch", "pods", POD, 918960, subresource="status",
        changed=("status.conditions[type=Ready].status",),
    )  # fmt: skip
    objects = HeldObjects({**OBJECTS, "pods": [pod]})
    timeline = answer(lesson(objects=objects, audit=(*AUDIT, write)), WHOLE)
    (condition,) = [entry for entry in timeline.entries if entry.source == "condition"]
    assert condition == Entry(
        id=f"condition:{uid(POD)}:Ready:2026-11-16T12:00:11Z",
        time=micro_timestamp(at(11.6)),
        source="condition",
        actor=f"pod {POD}",
        text="has condition Ready=True (Started)",
        object=ObjectRef("pods", SPACE, POD, uid(POD)),
        generation=1,
        role="subject",
    )
    cause = f"write:918960:pods/{SPACE}/{POD}"
    assert Edge(cause, condition.id, "reported", inferred=True) in timeline.edges
    newer = thing(POD, owner="ReplicaSet", revision=918961, spec={"nodeName": "node-c12"}, status=status)
    unknown = answer(lesson(objects=HeldObjects({**OBJECTS, "pods": [newer]}), audit=(*AUDIT, write)), WHOLE)
    assert not [edge for edge in unknown.edges if edge.effect == condition.id], "a write is not on record"
    second = msgspec.structs.replace(write, id="audit-y", revision=918961, time=micro_timestamp(at(12.1)))
    doubtful = answer(lesson(objects=objects, audit=(*AUDIT, write, second)), WHOLE)
    assert not [edge for edge in doubtful.edges if edge.effect.startswith("condition:")]
    (condition,) = [entry for entry in doubtful.entries if entry.source == "condition"]
    assert condition.time == micro_timestamp(at(11.6)), "not before any write that can have changed it"


def test_a_condition_follows_the_write_that_set_it_even_if_that_came_late() -> None:
    """Its request took sixteen seconds. An earlier write may have set all conditions, and set only one."""
    conditions = [
        {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-16T12:00:11Z"},
        {"type": "Started", "status": "True", "lastTransitionTime": "2026-11-16T12:00:11Z"},
    ]
    pod = thing(
        POD,
        owner="ReplicaSet",
        revision=918961,
        spec={"nodeName": "node-c12"},
        status={"conditions": conditions},
    )
    in_time = audit(
        11.6, "system:node:node-c12", "patch", "pods", POD, 918960, subresource="status",
        changed=("status.conditions",),
    )  # fmt: skip
    late = msgspec.structs.replace(
        in_time, id="audit-y", revision=918961, time=micro_timestamp(at(28)),
        changed=("status.conditions[type=Started]",),
    )  # fmt: skip
    objects = HeldObjects({**OBJECTS, "pods": [pod]})
    timeline = answer(lesson(objects=objects, audit=(*AUDIT, in_time, late)), WHOLE)
    causes = {edge.effect.split(":")[2]: edge.cause for edge in timeline.edges if "condition:" in edge.effect}
    assert causes == {
        "Ready": f"write:918960:pods/{SPACE}/{POD}",
        "Started": f"write:918961:pods/{SPACE}/{POD}",
    }


def test_conditions_that_came_with_a_late_status_are_not_those_of_the_create() -> None:
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-16T12:00:11Z"}]
    pod = thing(POD, owner="ReplicaSet", revision=918961, status={"conditions": conditions})
    created = audit(11.6, "controllers", "create", "pods", POD, 918960, changed=("*",))
    late = audit(
        28, "system:node:node-c12", "patch", "pods", POD, 918961, subresource="status",
        changed=("status.phase", "status.conditions"),
    )  # fmt: skip
    late = msgspec.structs.replace(late, id="audit-y")
    timeline = answer(
        lesson(objects=HeldObjects({**OBJECTS, "pods": [pod]}), audit=(*AUDIT, created, late)), WHOLE
    )
    (cause,) = [edge.cause for edge in timeline.edges if "condition:" in edge.effect]
    assert cause == f"write:918961:pods/{SPACE}/{POD}"


def test_a_condition_follows_the_write_that_was_committed_last_and_not_the_last_in_the_log() -> None:
    """The answer to the first status took 180 ms, so its entry comes after that of the second one."""
    conditions = [
        {"type": "Bound", "status": "False", "lastTransitionTime": "2026-11-16T12:00:11Z"},
        {"type": "RepairComplete", "status": "True", "lastTransitionTime": "2026-11-16T12:00:11Z"},
    ]
    pod = thing(POD, owner="ReplicaSet", revision=918961, status={"conditions": conditions})
    first = audit(
        11.28, "controllers", "patch", "pods", POD, 918960, subresource="status",
        changed=("status.conditions",),
    )  # fmt: skip
    second = audit(
        11.1, "controllers", "patch", "pods", POD, 918961, subresource="status",
        changed=("status.conditions[type=RepairComplete]",),
    )  # fmt: skip
    objects = HeldObjects({**OBJECTS, "pods": [pod]})
    timeline = answer(lesson(objects=objects, audit=(*AUDIT, first, second)), WHOLE)
    causes = {edge.effect.split(":")[2]: edge.cause for edge in timeline.edges if "condition:" in edge.effect}
    assert causes == {
        "Bound": f"write:918960:pods/{SPACE}/{POD}",
        "RepairComplete": f"write:918961:pods/{SPACE}/{POD}",
    }


def causes_of_conditions(timeline: Timeline) -> dict[str, str]:
    return {edge.effect.split(":")[2]: edge.cause for edge in timeline.edges if "condition:" in edge.effect}


def status_of_pod(seconds: float, revision: int, *changed: str, decision: str = "") -> AuditEntry:
    return audit(
        seconds, "controllers", "patch", "pods", POD, revision, subresource="status", changed=changed,
        decision=decision,
    )  # fmt: skip


def of_unknown_outcome(entry: AuditEntry) -> AuditEntry:
    return msgspec.structs.replace(entry, id="audit-504", code=504, revision=0)


REPAIRED = {"type": "RepairComplete", "status": "True", "lastTransitionTime": "2026-11-16T12:00:11Z"}
REPAIRED_STATUS = f"status.conditions[type={REPAIRED['type']}].status"
BOUND = {"type": "Bound", "status": "True", "lastTransitionTime": "2026-11-16T12:00:11Z"}


def pod_with_conditions(revision: int, *conditions: dict[str, str]) -> HeldObjects:
    pod = thing(POD, owner="ReplicaSet", revision=revision, status={"conditions": list(conditions)})
    return HeldObjects({**OBJECTS, "pods": [pod]})


def test_a_condition_that_a_write_of_unknown_outcome_may_have_changed_has_no_cause() -> None:
    """The store committed it, and the server answered 504. A write before it set all conditions."""
    all_set = status_of_pod(11.1, 918960, "status.conditions")
    changes = of_unknown_outcome(status_of_pod(11.2, 0, REPAIRED_STATUS))
    other = status_of_pod(12, 918962, "status.phase")
    objects = pod_with_conditions(918962, REPAIRED, BOUND)
    timeline = answer(lesson(objects=objects, audit=(*AUDIT, all_set, changes, other)), WHOLE)
    assert causes_of_conditions(timeline) == {"Bound": f"write:918960:pods/{SPACE}/{POD}"}


def test_a_condition_follows_the_write_that_was_decided_after_one_of_unknown_outcome() -> None:
    """The first one was answered with 504 and tried again: it cannot be committed after the second."""
    lost = of_unknown_outcome(status_of_pod(11.2, 0, REPAIRED_STATUS))
    again = status_of_pod(11.6, 918961, REPAIRED_STATUS, decision="again-1")
    other = status_of_pod(12, 918962, "status.phase")
    retry = decided(11.5, "again-1", "repair", "pods", POD, "status")
    evidence = lesson(
        objects=pod_with_conditions(918962, REPAIRED),
        audit=(*AUDIT, lost, again, other),
        decisions=(*DECISIONS, Recorded("controllers", KeptDecision(retry))),
    )
    cause = f"write:918961:pods/{SPACE}/{POD}"
    assert causes_of_conditions(answer(evidence, WHOLE)) == {"RepairComplete": cause}
    early = Recorded("controllers", KeptDecision(msgspec.structs.replace(retry, time_ns=at(11.15))))
    both = msgspec.structs.replace(evidence, decisions=(*DECISIONS, early))
    assert causes_of_conditions(answer(both, WHOLE)) == {}, "the first one may be the later one"
    before = msgspec.structs.replace(
        both, objects=pod_with_conditions(918961, REPAIRED), audit=(*AUDIT, lost, again)
    )
    assert causes_of_conditions(answer(before, WHOLE)) == {"RepairComplete": cause}, "nothing came after it"


@pytest.mark.parametrize("found_at", [11.3, 16.0])
@pytest.mark.parametrize(
    ("revision", "causes"),
    [(918961, {}), (918960, {"RepairComplete": f"write:918960:pods/{SPACE}/{POD}"})],
)
def test_a_condition_that_a_write_known_from_its_outcome_may_have_changed_has_no_cause(
    revision: int, causes: dict[str, str], found_at: float
) -> None:
    """Its server died between the commit and the answer: the log has no entry. A read found it, perhaps long
    after the commit."""
    all_set = status_of_pod(11.1, 918960, "status.conditions")
    other = status_of_pod(12, 918962, "status.phase")
    repairs = decided(11.15, "repair-1", "repair", "pods", POD, "status")
    done = msgspec.structs.replace(
        outcome(found_at, "repair-1", revision, "pods", POD, "", "status"), result="settled"
    )
    evidence = lesson(
        objects=pod_with_conditions(918962, REPAIRED),
        audit=(*AUDIT, all_set, other),
        decisions=(*DECISIONS, Recorded("controllers", KeptDecision(repairs, (done,)))),
    )
    assert causes_of_conditions(answer(evidence, WHOLE)) == causes


@pytest.mark.parametrize(
    ("result", "revision", "causes"),
    [
        ("unknown", 0, {}),
        ("settled", 918961, {}),
        ("settled", 918962, {}),  # A read found it, when the agent had written too.
        ("rejected", 0, {"Bound": f"write:918960:pods/{SPACE}/{POD}"}),
    ],
)
def test_a_condition_is_not_of_the_create_where_a_binding_that_nobody_answered_may_have_set_it(
    result: str, revision: int, causes: dict[str, str]
) -> None:
    """The server died between the commit and its entry in the log; what became of it was known late."""
    created = audit(11.1, "replicasets", "create", "pods", POD, 918960, changed=("*",))
    reports = status_of_pod(12, 918962, "status.phase")
    binds = decided(11.2, "bind-9", "scheduler", "pods", POD, "bind")
    last = msgspec.structs.replace(outcome(16, "bind-9", revision, "pods", POD, "", ""), result=result)
    evidence = lesson(
        objects=pod_with_conditions(918962, BOUND),
        audit=(*AUDIT, created, reports),
        decisions=(*DECISIONS, Recorded("scheduler", KeptDecision(binds, (last,)))),
    )
    assert causes_of_conditions(answer(evidence, WHOLE)) == causes


def test_what_a_write_of_unknown_outcome_may_have_set_is_not_told_as_anothers_value() -> None:
    """alice sets replicas; bob does, and the server answers 504; carol labels. What is now may be bob's."""
    fields = ("metadata.generation", "spec.replicas")
    created = audit(1, "alice", "create", DEPLOYMENTS, WORKLOAD, 918800, changed=("*",))
    by_alice = audit(2, "alice", "patch", DEPLOYMENTS, WORKLOAD, 918801, changed=fields)
    by_bob = of_unknown_outcome(audit(3, "bob", "patch", DEPLOYMENTS, WORKLOAD, 0, changed=fields))
    labels = audit(4, "carol", "patch", DEPLOYMENTS, WORKLOAD, 918900, changed=("metadata.labels[a]",))
    timeline = answer(
        lesson(
            subject=ObjectRef(DEPLOYMENTS, SPACE, WORKLOAD),
            decisions=(),
            audit=(created, by_alice, by_bob, labels),
        ),
        WHOLE,
    )
    told = {
        entry.revision: (entry.text, entry.generation)
        for entry in timeline.entries
        if entry.source == "audit"
    }
    assert told == {
        918800: (f"creates deployment {WORKLOAD}", 1),
        918801: (f"sets spec.replicas of deployment {WORKLOAD}", 0),
        0: (f"tries to patch deployment {WORKLOAD}: the API server answers 504", 0),
        918900: (f"sets metadata.labels[a] of deployment {WORKLOAD}", 43),
    }


def condition_written_twice(first: str, second: str) -> Entry:
    """Its entry, where two writes changed these fields of the pod's status."""
    limited = {
        "type": "Ready", "status": "False", "reason": "Crashed", "lastTransitionTime": "2026-11-16T12:00:11Z",
    }  # fmt: skip
    pod = thing(POD, owner="ReplicaSet", spec={"nodeName": "node-c12"}, status={"conditions": [limited]})
    began = audit(
        11.6, "system:node:node-c12", "patch", "pods", POD, 918960, subresource="status", changed=(first,)
    )  # fmt: skip
    later = msgspec.structs.replace(
        began, id="audit-y", revision=918961, time=micro_timestamp(at(40)), changed=(second,)
    )
    objects = HeldObjects({**OBJECTS, "pods": [pod]})
    timeline = answer(lesson(objects=objects, audit=(*AUDIT, began, later)), WHOLE)
    (condition,) = [entry for entry in timeline.entries if entry.source == "condition"]
    return condition


def test_a_condition_that_was_written_again_has_the_reason_of_now() -> None:
    condition = condition_written_twice("status.conditions", "status.conditions[type=Ready].reason")
    assert (condition.time, condition.text) == (
        micro_timestamp(at(11.6)),
        "has condition Ready=False; since 12:00:40 it reads (Crashed)",
    )


def test_a_condition_whose_reason_is_as_old_as_its_status_says_it_plainly() -> None:
    """It was written again, and only its time of probing changed."""
    probed = "status.conditions[type=Ready].lastProbeTime"
    condition = condition_written_twice("status.conditions[type=Ready]", probed)
    assert condition.text == "has condition Ready=False (Crashed)"


def test_a_reason_that_was_written_before_the_change_is_not_said_to_be_newer() -> None:
    """The answer to the first write took long, so its entry comes after that of the change."""
    ready = {
        "type": "Ready", "status": "False", "reason": "Crashed", "lastTransitionTime": "2026-11-16T12:00:11Z",
    }  # fmt: skip
    pod = thing(POD, owner="ReplicaSet", revision=918961, status={"conditions": [ready]})
    field = "status.conditions[type=Ready]"
    reworded, changes = (
        audit(14, "agent", "patch", "pods", POD, 918960, subresource="status", changed=(f"{field}.reason",)),
        audit(11.2, "agent", "patch", "pods", POD, 918961, subresource="status", changed=(field,)),
    )
    objects = HeldObjects({**OBJECTS, "pods": [pod]})
    timeline = answer(lesson(objects=objects, audit=(*AUDIT, reworded, changes)), WHOLE)
    (condition,) = [entry for entry in timeline.entries if entry.source == "condition"]
    assert condition.text == "has condition Ready=False (Crashed)"


def test_gaps_are_said_and_quiet_time_is_folded() -> None:
    late = audit(60, "alice", "patch", "pods", POD, 919000, changed=("metadata.labels[team]",))
    gap = Gap("journal of gateway", "it did not answer")
    timeline = answer(lesson(audit=(*AUDIT, late), gaps=(gap,)), WHOLE)
    assert text_of(timeline)[-2:] == [
        "     … 50 s, nothing",
        f" 16  12:01:00.000  alice                   sets metadata.labels[team] of pod {POD}",
    ]
    assert gap_lines(timeline) == ["no data: journal of gateway: it did not answer"]


def test_decisions_that_no_journal_has_are_a_gap() -> None:
    timeline = answer(lesson(decisions=DECISIONS[1:]), WHOLE)
    assert timeline.gaps == (
        Gap("journals", "no journal that answered has 1 of the decisions that writes name"),
    )


def test_routine_that_repeats_is_one_entry_with_a_count() -> None:
    reports = tuple(
        audit(
            12 + second, "system:node:node-c12", "patch", "pods", POD, 918970 + second,
            subresource="status", changed=("status.containerStatuses[name=main].ready",),
        )
        for second in range(5)
    )  # fmt: skip
    evidence = lesson(audit=(*AUDIT, *reports))
    (folded,) = [entry for entry in answer(evidence, WHOLE).entries if entry.revision >= 918970]
    assert (folded.count, folded.time, folded.until) == (
        5,
        micro_timestamp(at(12)),
        micro_timestamp(at(16)),
    )
    whole = answer(evidence, TimelineSpec(fold=False))
    assert len([entry for entry in whole.entries if entry.revision >= 918970]) == 5


def test_who_may_not_read_nodes_gets_counts() -> None:
    timeline = answer(lesson(may_read_nodes=False), WHOLE)
    rules = [entry.text for entry in timeline.entries if entry.actor.startswith("rule ")]
    assert rules == [
        f"rejects 3 nodes for pod {POD}: placement/topology",
        f"rejects 2 nodes for pod {POD}: quota/risk-zone-c",
    ]


def test_objects_of_other_namespaces_are_counted_not_shown() -> None:
    timeline = answer(lesson(readable=frozenset({"elsewhere"})), WHOLE)
    assert [entry.object.resource for entry in timeline.entries if entry.object is not None] == [
        TENANT_QUOTAS, TENANT_QUOTAS
    ]  # fmt: skip
    assert timeline.gaps == (Gap("permissions", "13 entries are about objects that you may not read"),)


def test_a_timeline_begins_and_ends_where_it_is_asked_to() -> None:
    middle = answer(lesson(), TimelineSpec(since_ns=at(5), until_revision=918946))
    assert [entry.time[17:19] for entry in middle.entries] == ["05", "06", "06", "07"]


def test_only_one_generation_of_the_subject() -> None:
    first, second = (
        Recorded(
            "controllers",
            KeptDecision(
                msgspec.structs.replace(
                    decision := decided(seconds, name, "deployments", DEPLOYMENTS, WORKLOAD, "patch"),
                    subject=msgspec.structs.replace(decision.subject, generation=generation),
                )
            ),
        )
        for seconds, name, generation in ((0.5, "roll-1", 42), (6.5, "roll-2", 43))
    )
    subject = ObjectRef(DEPLOYMENTS, SPACE, WORKLOAD)
    evidence = lesson(subject=subject, decisions=(*DECISIONS, first, second))
    timeline = answer(evidence, TimelineSpec(generation=42))
    began = f"write:918800:{DEPLOYMENTS}/{SPACE}/{WORKLOAD}"
    assert (timeline.entries[0].id, timeline.generation) == (began, 43)
    assert "decision:roll-1" in {entry.id for entry in timeline.entries}
    assert timeline.entries[-1].id == "decision:scale-1", "what it wrote begins the next generation"


def test_the_records_wanted_are_those_of_the_family_and_of_what_decisions_may_cite() -> None:
    query = wanted(ObjectRef("pods", SPACE, POD), HeldObjects(OBJECTS), WHOLE)
    assert [(ref.resource, ref.name) for ref in query.objects] == [
        ("pods", POD),
        (REPLICA_SETS, SET),
        (DEPLOYMENTS, WORKLOAD),
        ("horizontalpodautoscalers.autoscaling", "risk-api-scaler"),
        ("events", f"{POD}.1"),
        ("nodes", "node-c12"),
        (TENANT_QUOTAS, SPACE),
    ]
    assert wanted_more(lesson(), WHOLE) is None


def test_a_deleted_pod_is_found_by_its_records_and_what_they_cite_is_asked_for_next() -> None:
    evidence = lesson(objects=HeldObjects({**OBJECTS, "pods": []}))
    assert answer(evidence, WHOLE).subject == ObjectRef("pods", SPACE, POD, uid(POD))
    more = wanted_more(evidence, WHOLE)
    assert more is not None
    assert ObjectRef(REPLICA_SETS, SPACE, SET, uid(SET)) in more.objects


def test_nothing_on_record_is_said() -> None:
    evidence = Evidence(subject=ObjectRef("pods", SPACE, "nobody"), objects=HeldObjects({}))
    assert answer(evidence, WHOLE) == Timeline(
        subject=ObjectRef("pods", SPACE, "nobody"),
        gaps=(Gap("objects", "no object of this name exists, and none is on record"),),
    )


class AskedSpec(msgspec.Struct, frozen=True):
    since: str = ""
    at: str = ""
    generation: int = 0
    fold: bool = True


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (AskedSpec(), TimelineSpec()),
        (AskedSpec(since="50s"), TimelineSpec(since_ns=at(10))),
        (AskedSpec(since="2026-11-16T12:00:05Z"), TimelineSpec(since_ns=at(5))),
        (AskedSpec(at="918946", generation=42), TimelineSpec(until_revision=918946, generation=42)),
        (AskedSpec(at="2026-11-16T12:00:07Z"), TimelineSpec(until_ns=at(7))),
        (AskedSpec(fold=False), TimelineSpec(fold=False)),
    ],
)
def test_the_apis_question_has_times_as_people_write_them(spec: AskedSpec, expected: TimelineSpec) -> None:
    assert asked.answer(lesson(), spec) == answer(lesson(), expected)


def test_a_conflict_and_a_refusal_are_entries_of_their_own() -> None:
    record = Recorded(
        "scheduler",
        KeptDecision(
            decided(2, "place-9", "scheduler", "pods", POD, "bind", nodes=5, node="node-a1"),
            (
                msgspec.structs.replace(
                    outcome(2.1, "place-9", 0, "pods", POD, "no room"), result="rejected", check="Resources"
                ),
            ),
        ),
    )
    timeline = answer(lesson(decisions=(*DECISIONS, record)), WHOLE)
    (refused,) = [entry for entry in timeline.entries if entry.id == "outcome:place-9:0"]
    assert refused.text == f"is refused a write of pod {POD} (Resources): no room"


def test_names_that_the_user_may_not_read_are_in_no_text() -> None:
    """What woke the pod and whom it preempts are objects of other tenants, or nodes."""
    woken = decided(
        2, "place-8", "scheduler", "pods", POD, "preempt", nodes=5, node="node-a1", queued_ms=500.0,
        cause=WakeCause(
            "event", "deleted from node-b1", "pods", "other", "secret-pod", 918801,
            event="PodGone", gone=True,
        ),
        victims=("other/secret-victim: preempted", f"{SPACE}/mine: preempted"),
    )  # fmt: skip
    evidence = lesson(
        decisions=(*DECISIONS, Recorded("scheduler", KeptDecision(woken))),
        readable=frozenset({SPACE}),
        may_read_nodes=False,
    )
    shown = [entry.text for entry in answer(evidence, WHOLE).entries if "place-8" in entry.ids.values()]
    assert shown == [
        "enters the queue of scheduler, woken by event: a pod that you may not read changed",
        f"makes room on node-a1 for pod {POD}: it evicts {SPACE}/mine, 1 pods that you may not read",
    ]


def test_a_pod_that_is_evicted_for_another_is_in_the_others_timeline() -> None:
    preempting = msgspec.structs.replace(
        decided(8, "preempt-1", "scheduler", "pods", POD, "preempt"),
        node="node-c11",
        victims=(f"{SPACE}/batch-1: it has a lower priority",),
    )
    evicted = audit(
        8.1, "scheduler", "create", "pods", "batch-1", 918950, subresource="eviction",
        changed=("metadata.deletionTimestamp",), decision="preempt-1",
    )  # fmt: skip
    records = (*DECISIONS, Recorded("scheduler", KeptDecision(preempting)))
    timeline = answer(lesson(decisions=records, audit=(*AUDIT, evicted)), WHOLE)
    assert "scheduler evicts pod batch-1" in texts(timeline)
    assert ("decision:preempt-1", f"write:918950:pods/{SPACE}/batch-1") in edges(timeline)
    query = wanted_more(lesson(decisions=records), WHOLE)
    assert query is not None
    assert ObjectRef("pods", SPACE, "batch-1") in query.objects


def test_of_two_writes_in_one_second_the_one_that_names_the_condition_changed_it() -> None:
    bound = {"type": "Bound", "status": "True", "lastTransitionTime": "2026-11-16T12:00:01Z"}
    pod = thing(POD, owner="ReplicaSet", revision=918806, status={"conditions": [bound]})
    created, binds = (
        audit(1.1, "replicasets", "create", "pods", POD, 918805, changed=("*",)),
        audit(
            1.2, "scheduler", "create", "pods", POD, 918806, subresource="binding",
            changed=("spec.nodeName", "status.conditions[type=Bound]"),
        ),
    )  # fmt: skip
    objects = HeldObjects({**OBJECTS, "pods": [pod]})
    timeline = answer(lesson(objects=objects, audit=(created, binds)), WHOLE)
    (condition,) = [entry for entry in timeline.entries if entry.source == "condition"]
    causes = [edge.cause for edge in timeline.edges if edge.effect == condition.id]
    assert (causes, condition.time) == ([f"write:918806:pods/{SPACE}/{POD}"], micro_timestamp(at(1.2)))


def test_of_two_changes_of_a_condition_in_one_second_the_later_one_made_it_as_it_is() -> None:
    """The first write says that the pod is not ready yet. The second leaves the time: it has no fractions."""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-16T12:00:01Z"}
    pod = thing(POD, owner="ReplicaSet", revision=918807, status={"conditions": [ready]})
    field = "status.conditions[type=Ready]"
    starts, runs = (
        audit(1.1, "agent", "patch", "pods", POD, 918806, subresource="status", changed=(field,)),
        audit(1.2, "agent", "patch", "pods", POD, 918807, subresource="status", changed=(f"{field}.status",)),
    )
    timeline = answer(lesson(objects=HeldObjects({**OBJECTS, "pods": [pod]}), audit=(starts, runs)), WHOLE)
    (condition,) = [entry for entry in timeline.entries if entry.source == "condition"]
    causes = [edge.cause for edge in timeline.edges if edge.effect == condition.id]
    assert (causes, condition.time) == ([f"write:918807:pods/{SPACE}/{POD}"], micro_timestamp(at(1.2)))


def test_a_heartbeat_does_not_stand_for_the_change_of_a_condition() -> None:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-16T12:00:11Z"}
    pod = thing(POD, owner="ReplicaSet", status={"conditions": [ready]})
    beat = audit(
        11.6, "system:node:node-c12", "patch", "pods", POD, 918960, subresource="status",
        changed=("status.conditions[type=Ready].lastHeartbeatTime",),
    )  # fmt: skip
    objects = HeldObjects({**OBJECTS, "pods": [pod]})
    timeline = answer(lesson(objects=objects, audit=(*AUDIT, beat)), WHOLE)
    (condition,) = [entry for entry in timeline.entries if entry.source == "condition"]
    assert [edge for edge in timeline.edges if edge.effect == condition.id] == []


def test_what_a_user_deleted_first_is_not_claimed_by_a_decision_that_came_late() -> None:
    """The answer to the second delete has the revision that the first one made."""
    late = Recorded(
        "controllers",
        KeptDecision(
            decided(5, "late-1", "replicasets", REPLICA_SETS, SET, "delete"),
            (outcome(9, "late-1", 918955, "pods", POD, f"delete Pod {SPACE}/{POD}"),),
        ),
    )
    by_user = audit(8, "alice", "delete", "pods", POD, 918955, changed=("metadata.deletionTimestamp",))
    timeline = answer(lesson(decisions=(*DECISIONS, late), audit=(*AUDIT, by_user)), WHOLE)
    assert ("decision:late-1", f"write:918955:pods/{SPACE}/{POD}") not in edges(timeline)


def test_a_revision_that_another_decision_wrote_is_not_claimed() -> None:
    """A patch that changes nothing is answered with the object as it is; a settled one with what was read."""
    records = [
        Recorded(
            "controllers",
            KeptDecision(
                decided(second, id_, "replicasets", REPLICA_SETS, SET, "patch"),
                (msgspec.structs.replace(
                    outcome(second, id_, 918805, "pods", POD, f"patch Pod {SPACE}/{POD}"), result=result
                ),),
            ),
        )
        for second, id_, result in ((2, "nothing-to-do", "committed"), (3, "read-later", "settled"))
    ]  # fmt: skip
    timeline = answer(lesson(decisions=(*DECISIONS, *records)), WHOLE)
    created = f"write:918805:pods/{SPACE}/{POD}"
    assert {cause for cause, effect in edges(timeline) if effect == created} == {"decision:set-1"}


def reworded(record: Recorded) -> Recorded:
    """Every text for people is another one; every field that programs read is as it was."""
    decision = record.kept.decision
    cause = msgspec.structs.replace(decision.cause, detail="etwas geschah")
    outcomes = tuple(msgspec.structs.replace(each, message="geschrieben") for each in record.kept.outcomes)
    nodes = {node: reason and f"nein, {reason}" for node, reason in (record.nodes or {}).items()}
    rules = {f"nein, {reason}": rule for reason, rule in record.rules.items()}
    kept = KeptDecision(msgspec.structs.replace(decision, cause=cause, message="so sei es"), outcomes)
    return Recorded(record.process, kept, nodes if record.nodes is not None else None, rules)


@pytest.mark.parametrize("subject", [(DEPLOYMENTS, WORKLOAD), (REPLICA_SETS, SET), ("pods", POD)])
def test_a_timeline_is_the_same_when_records_are_worded_otherwise(subject: tuple[str, str]) -> None:
    """The pod is gone: only the outcomes of its owners' decisions tell that they created it."""
    removed = msgspec.structs.replace(audit(20, "agent", "delete", "pods", POD, 918990), changed=())
    woken = decided(
        20.1, "set-2", "replicasets", REPLICA_SETS, SET, "create+status",
        cause=changed("pods", POD, 918950, "deleted"),
    )  # fmt: skip
    created = outcome(20.2, "set-2", 918991, "pods", "web-9", "create Pod", "create")
    reported = outcome(20.3, "set-2", 918992, REPLICA_SETS, SET, "status ReplicaSet", "status")
    records = (*DECISIONS, Recorded("controllers", KeptDecision(woken, (created, reported))))
    objects = HeldObjects({**OBJECTS, "pods": [], "events": []})
    ref = ObjectRef(subject[0], SPACE, subject[1], uid(subject[1]))
    before = lesson(subject=ref, audit=(*AUDIT, removed), decisions=records, objects=objects)
    after = msgspec.structs.replace(before, decisions=tuple(map(reworded, records)))
    told, told_again = answer(before, WHOLE), answer(after, WHOLE)
    assert edges(told) == edges(told_again)
    assert [(entry.id, entry.actor, entry.routine) for entry in told.entries] == [
        (entry.id, entry.actor, entry.routine) for entry in told_again.entries
    ]
    assert texts(told) != texts(told_again)
    assert ("write:918990:pods/" + f"{SPACE}/{POD}", "decision:set-2") in edges(told)


# Overrides that hold the subject, and that no decision cites.


def held(*, ends: str, **meta: Any) -> Evidence:
    calm = thing(
        "calm",
        revision=918990,
        spec={
            "target": "deployment/risk-api",
            "scope": "cluster",
            "reason": "r",
            "expiresAfter": "45m",
            "changes": {"pauseExpansion": True},
        },
        status={"author": "bob", "expiresAt": ends},
    )
    calm["metadata"] |= meta
    changed_by = (Verdict(plugin="OverrideFinalizer", mutated=("metadata.finalizers",)),)
    begun = audit(40, "bob", "create", OVERRIDES, "calm", 918990, changed=("*",), admission=changed_by)
    reported = audit(
        41, "system:fathom:controllers", "patch", OVERRIDES, "calm", 918991, changed=("status.active",)
    )
    return lesson(
        subject=ObjectRef(DEPLOYMENTS, SPACE, WORKLOAD),
        objects=HeldObjects({**OBJECTS, OVERRIDES: [calm]}),
        audit=(*AUDIT, begun, reported),
    )


def about_overrides(timeline: Timeline) -> list[tuple[str, str]]:
    about = [entry for entry in timeline.entries if entry.object is not None and entry.object.name == "calm"]
    return [(entry.time[11:23], f"{entry.actor} {entry.text}") for entry in about]


def test_a_timeline_shows_when_an_override_of_the_object_began_and_until_when_it_lasts() -> None:
    begun = (
        "12:00:40.000",
        "bob creates scheduleroverride calm: pauseExpansion for deployment/risk-api, until 2026-11-16T12:45:40Z",  # noqa: E501
    )
    assert about_overrides(answer(held(ends="2026-11-16T12:45:40Z"), WHOLE)) == [begun]


def test_a_timeline_shows_when_an_override_of_the_object_ended() -> None:
    begun = (
        "12:00:40.000",
        "bob creates scheduleroverride calm: pauseExpansion for deployment/risk-api, until 2026-11-16T12:00:50Z",  # noqa: E501
    )
    ended = ("12:00:50.000", "scheduleroverride calm ends, as its author bob asked for: pauseExpansion")
    assert about_overrides(answer(held(ends="2026-11-16T12:00:50Z"), WHOLE)) == [begun, ended]


def test_an_override_of_another_workload_is_not_in_the_timeline() -> None:
    evidence = held(ends="2026-11-16T12:00:50Z")
    (calm,) = evidence.objects.list(OVERRIDES)
    calm["spec"]["target"] = "deployment/other"
    assert about_overrides(answer(evidence, WHOLE)) == []
