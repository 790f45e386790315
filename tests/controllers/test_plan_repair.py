"""What repair does by itself, what it only proposes, and what it leaves alone."""

from __future__ import annotations

import pytest

from fathom.control.plan import NOTHING, Delete, Plan, target
from fathom.controllers.repair.plan import (
    began_at,
    loose_ends,
    marked_since,
    plan_complete,
    plan_pod,
    plan_reservation,
    void_since,
    waits_for_node_s,
)
from fathom.controllers.repair.plan_proposals import (
    STRANDED,
    over_since,
    overdue_in_s,
    plan_finalizers,
    plan_proposal,
    plan_repair,
    proposal,
    proposal_name,
    without_named,
)
from fathom.kinds.repair_proposal import spec_hash
from fathom.model.accounts import REPAIR
from fathom.model.objects import Obj

NOW = "2026-01-01T01:00:00Z"
NOW_NS = 1_767_229_200 * 1_000_000_000
EARLIER, LONG_AGO = "2026-01-01T00:59:30Z", "2026-01-01T00:00:00Z"


def pod(name: str = "web-0", uid: str = "pod-1", node: str = "n1", **more: object) -> Obj:
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": uid, "creationTimestamp": LONG_AGO, **more},
        "spec": {"nodeName": node},
        "status": {"phase": "Running"},
    }


def reservation(uid: str = "r1", made: str = LONG_AGO, phase: str = "Active", **spec: object) -> Obj:
    notes = {"fathom.dev/pod": "web-0", "fathom.dev/pod-uid": "pod-1"}
    return {
        "metadata": {
            "name": uid,
            "namespace": "shop",
            "uid": uid,
            "creationTimestamp": made,
            "annotations": notes,
            "generation": 1,
        },
        "spec": {"workload": {"uid": "w"}, "intent": "recovery", **spec},
        "status": {"phase": phase},
    }


def phase_after(held: Obj, holder: Obj | None, *twins: Obj) -> tuple[str, str]:
    """What it becomes, and why."""
    plan = plan_reservation(held, holder, [held, *twins], now_ns=NOW_NS, now=NOW)
    (patch,) = plan.patches
    assert patch.subresource == "status"
    return str(patch.patch["status"]["phase"]), plan.why


def test_a_reservation_whose_pod_waits_or_has_taken_it_is_left_alone() -> None:
    waiting, bound = pod(node=""), reservation(phase="Bound")
    assert plan_reservation(reservation(), waiting, [reservation()], now_ns=NOW_NS, now=NOW) == NOTHING
    assert plan_reservation(bound, pod(), [bound], now_ns=NOW_NS, now=NOW) == NOTHING


def test_a_reservation_whose_pod_has_a_place_without_it_is_released() -> None:
    assert phase_after(reservation(), pod()) == ("Released", "its pod was bound without it")


def test_one_whose_pod_is_gone_is_released_also_when_a_namesake_is_there() -> None:
    gone = ("Released", "its pod is gone")
    assert phase_after(reservation(), None) == gone
    assert phase_after(reservation(), pod(uid="another")) == gone


def test_one_whose_time_is_over_expires_but_a_bound_one_belongs_to_its_pod() -> None:
    late = reservation(expiresAt=EARLIER)
    assert phase_after(late, pod()) == ("Expired", f"it expired at {EARLIER}")
    bound = reservation(phase="Bound", expiresAt=EARLIER)
    assert plan_reservation(bound, pod(), [bound], now_ns=NOW_NS, now=NOW) == NOTHING


def test_of_two_for_one_intent_the_younger_is_released() -> None:
    old, young = reservation(), reservation("r2", made=EARLIER)
    assert phase_after(young, pod(node=""), old) == ("Released", "the same intent has an older reservation")
    assert plan_reservation(old, pod(node=""), [old, young], now_ns=NOW_NS, now=NOW) == NOTHING


def test_what_holds_nothing_any_more_is_removed_after_a_while() -> None:
    void = reservation(phase="Released")
    plan = plan_reservation(void, None, [void], now_ns=NOW_NS, now=NOW, void_s=60.0)
    assert plan.deletes == (Delete(target("Reservation", void)),)
    kept = plan_reservation(void, None, [void], now_ns=NOW_NS, now=NOW, void_s=59.0)
    assert kept == Plan(why="it holds no capacity any more, and is kept for a minute")


def test_a_reservation_is_void_since_its_condition_says_so_or_else_since_it_was_made() -> None:
    void = reservation(phase="Released")
    said = {**void, "status": {"phase": "Released", "conditions": [{"lastTransitionTime": EARLIER}]}}
    assert [void_since(each) for each in (void, said, reservation())] == [LONG_AGO, EARLIER, None]


def test_a_pod_whose_node_is_not_there_is_removed_at_once() -> None:
    lost = pod()
    plan = plan_pod(lost, None, node_is_gone=True, now_ns=NOW_NS, now=NOW)
    assert plan.deletes == (Delete(target("Pod", lost), grace_s=0),)
    assert plan.why == "it is bound to node n1, which does not exist"
    status = plan.patches[0].patch["status"]
    assert (status["phase"], status["conditions"][0]["reason"]) == ("Failed", "DeletionByPodGC")


def test_a_pod_that_is_going_and_never_had_a_node_is_said_to_have_failed() -> None:
    waiting = pod(node="", deletionTimestamp=EARLIER)
    plan = plan_pod(waiting, None, node_is_gone=False, now_ns=NOW_NS, now=NOW)
    assert plan.patches[0].patch == {"status": {"phase": "Failed"}}
    assert plan.deletes == (Delete(target("Pod", waiting), grace_s=0),)
    ended = {**waiting, "status": {"phase": "Failed"}}
    assert plan_pod(ended, None, node_is_gone=False, now_ns=NOW_NS, now=NOW) == NOTHING
    staying = pod(node="")
    assert plan_pod(staying, None, node_is_gone=False, now_ns=NOW_NS, now=NOW) == NOTHING


def test_a_pod_that_is_marked_as_evicted_and_not_deleted_is_not_for_long() -> None:
    marked = pod()
    mark = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "m"}
    marked["status"] = {"phase": "Running", "conditions": [{**mark, "lastTransitionTime": EARLIER}]}
    assert marked_since(marked) == EARLIER
    assert plan_pod(marked, None, node_is_gone=False, now_ns=NOW_NS, now=NOW, marked_s=119) == NOTHING
    (patch,) = plan_pod(marked, None, node_is_gone=False, now_ns=NOW_NS, now=NOW, marked_s=121).patches
    (condition,) = patch.patch["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "PreemptionByScheduler")
    assert condition["lastTransitionTime"] == NOW
    assert marked_since({**marked, "status": patch.patch["status"]}) is None
    assert marked_since(pod(deletionTimestamp=EARLIER) | {"status": marked["status"]}) is None
    assert marked_since({**marked, "status": {**marked["status"], "phase": "Succeeded"}}) is None


def test_a_young_pod_waits_for_its_node_to_be_heard_of() -> None:
    assert [waits_for_node_s(age_s) for age_s in (0.0, 30.0, 40.0, 4000.0)] == [40.0, 10.0, 0.0, 0.0]
    young = pod()
    young["metadata"]["creationTimestamp"] = EARLIER
    assert began_at(young) == EARLIER
    young["status"]["startTime"] = NOW
    assert began_at(young) == NOW


def node(ready: str) -> Obj:
    return {"metadata": {"name": "n1"}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}


def test_a_pod_that_is_going_from_a_node_that_people_said_is_out_of_service_is_removed() -> None:
    going = pod(deletionTimestamp=EARLIER)
    taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
    dark, bright = ({**node(ready), "spec": {"taints": [taint]}} for ready in ("Unknown", "True"))
    plan = plan_pod(going, dark, node_is_gone=False, now_ns=NOW_NS, now=NOW)
    assert plan.patches[0].patch == {"status": {"phase": "Failed"}}
    assert plan.deletes == (Delete(target("Pod", going), grace_s=0),)
    assert plan_pod(going, bright, node_is_gone=False, now_ns=NOW_NS, now=NOW) == NOTHING
    assert plan_pod(pod(), dark, node_is_gone=False, now_ns=NOW_NS, now=NOW) == NOTHING
    held = pod(deletionTimestamp=EARLIER, deletionGracePeriodSeconds=0)
    held["status"]["phase"] = "Failed"
    assert plan_pod(held, dark, node_is_gone=False, now_ns=NOW_NS, now=NOW) == NOTHING


def test_a_pod_that_does_not_go_from_a_silent_node_is_a_persons_decision() -> None:
    stuck = pod(deletionTimestamp=LONG_AGO)
    (create,) = plan_pod(stuck, node("Unknown"), node_is_gone=False, now_ns=NOW_NS, now=NOW).creates
    assert create.obj["metadata"] == {"name": proposal_name("Pod", "pod-1", "Delete"), "namespace": "shop"}
    assert create.obj["spec"]["action"] == "Delete"


@pytest.mark.parametrize(("since", "ready"), [(EARLIER, "Unknown"), (LONG_AGO, "True")])
def test_one_that_may_still_go_by_itself_is_left_alone(since: str, ready: str) -> None:
    going = pod(deletionTimestamp=since)
    assert plan_pod(going, node(ready), node_is_gone=False, now_ns=NOW_NS, now=NOW) == NOTHING


def test_a_foreign_finalizer_that_holds_for_long_is_proposed_for_removal() -> None:
    held = pod(deletionTimestamp=LONG_AGO, finalizers=["example.com/disk"])
    (create,) = plan_finalizers("Pod", held, now_ns=NOW_NS).creates
    assert create.obj["spec"]["problem"] == "HeldByFinalizers"
    assert create.obj["spec"]["evidence"][0]["message"] == (
        f"it should have been gone by {LONG_AGO}, but is held by finalizer example.com/disk"
    )
    ours = pod(deletionTimestamp=LONG_AGO, finalizers=["foregroundDeletion"])
    assert plan_finalizers("Pod", ours, now_ns=NOW_NS) == NOTHING


def test_what_is_going_is_looked_at_again_when_its_time_is_over_and_not_later() -> None:
    assert overdue_in_s(pod(deletionTimestamp=EARLIER), now_ns=NOW_NS) == 571.0
    assert overdue_in_s(pod(deletionTimestamp=LONG_AGO), now_ns=NOW_NS) is None
    assert overdue_in_s(pod(), now_ns=NOW_NS) is None


def test_an_object_whose_deletion_is_in_the_future_is_looked_at_again_after_ten_minutes() -> None:
    """The clock may have been wrong, and be right by then."""
    day_ns = 86_400 * 1_000_000_000
    assert overdue_in_s(pod(deletionTimestamp=EARLIER), now_ns=NOW_NS - day_ns) == 601.0


def test_a_pod_that_only_a_finalizer_holds_is_proposed_wherever_its_node_is() -> None:
    going = pod(deletionTimestamp=LONG_AGO, deletionGracePeriodSeconds=0, finalizers=["example.com/disk"])
    held = {**going, "status": {"phase": "Failed"}}
    for where, gone in ((node("True"), False), (node("Unknown"), False), (None, True)):
        (create,) = plan_pod(held, where, node_is_gone=gone, now_ns=NOW_NS, now=NOW).creates
        assert create.obj["spec"]["problem"] == "HeldByFinalizers"
    counted = pod(deletionTimestamp=LONG_AGO, finalizers=["batch.kubernetes.io/job-tracking"])
    assert plan_pod(counted, node("True"), node_is_gone=False, now_ns=NOW_NS, now=NOW) == NOTHING


def decided(proposed: Obj, approved: bool | None = None, **status: object) -> Obj:
    """As the server keeps it: made by repair, and decided about by a person."""
    words = {
        "maker": REPAIR,
        **({"approved": approved, "approvedSpec": spec_hash(proposed)} if approved is not None else {}),
    }
    return {**proposed, "status": {**words, **status}}


def phase_of(proposed: Obj, subject: Obj | None, where: Obj | None = None) -> str:
    (write,) = plan_proposal(proposed, subject, where, now_ns=NOW_NS, now=NOW).statuses
    return str(write.status["phase"])


STUCK = pod(deletionTimestamp=LONG_AGO)
PROPOSED = proposal(STUCK, "Pod", STRANDED, "…")


def test_only_what_was_proposed_is_removed_and_then_the_proposal_is_done() -> None:
    held = pod(deletionTimestamp=LONG_AGO, finalizers=["foregroundDeletion", "example.com/disk"])
    (create,) = plan_finalizers("Pod", held, now_ns=NOW_NS).creates
    proposed = decided(create.obj, approved=True)
    assert without_named(held, proposed) == ["foregroundDeletion"]
    later = pod(deletionTimestamp=LONG_AGO, finalizers=["foregroundDeletion", "example.com/net"])
    assert without_named(later, proposed) is None
    assert phase_of(proposed, later) == "Done"
    (other,) = plan_finalizers("Pod", later, now_ns=NOW_NS).creates
    assert other.obj["metadata"]["name"] != create.obj["metadata"]["name"]


def test_an_approved_proposal_is_carried_out_by_a_plan_with_its_evidence() -> None:
    held = pod(deletionTimestamp=LONG_AGO, finalizers=["foregroundDeletion", "example.com/disk"])
    (create,) = plan_finalizers("Pod", held, now_ns=NOW_NS).creates
    at = target("Pod", held)
    [patch] = plan_repair(at, held, create.obj).patches
    assert (patch.target, patch.patch) == (at, {"metadata": {"finalizers": ["foregroundDeletion"]}})
    plan = plan_repair(target("Pod", STUCK), STUCK, PROPOSED)
    assert plan.deletes == (Delete(target("Pod", STUCK), grace_s=0),)
    assert plan.why == f"RepairProposal {PROPOSED['metadata']['name']} was approved: …"


def test_a_proposal_says_what_to_type() -> None:
    (write,) = plan_proposal(decided(PROPOSED), STUCK, now_ns=NOW_NS, now=NOW).statuses
    (said,) = write.status["conditions"]
    what = f"{PROPOSED['metadata']['name']} -n shop"
    assert (
        said["message"] == f"to approve: fathom repair approve {what}; to refuse: fathom repair refuse {what}"
    )


def test_what_is_over_is_removed_after_an_hour_and_a_refusal_stays_with_its_subject() -> None:
    refused = decided(PROPOSED, approved=False, phase="Refused")
    assert phase_of(refused, None) == "Obsolete"
    assert phase_of(refused, STUCK) == "Refused"
    over = decided(PROPOSED, phase="Obsolete", conditions=[{"type": "Over", "lastTransitionTime": EARLIER}])
    assert [over_since(each) for each in (refused, over)] == [None, EARLIER]
    for over_s, lines in ((3599.0, 0), (3600.0, 1)):
        plan = plan_proposal(over, None, now_ns=NOW_NS, now=NOW, over_s=over_s)
        assert len(plan.deletes) == lines


@pytest.mark.parametrize(("approved", "phase"), [(None, "Proposed"), (True, "Approved"), (False, "Refused")])
def test_a_proposal_is_carried_out_only_when_a_person_says_so(approved: bool | None, phase: str) -> None:
    assert phase_of(decided(PROPOSED, approved), STUCK, node("Unknown")) == phase


def test_an_approval_counts_for_the_spec_that_was_approved() -> None:
    other = {**PROPOSED, "spec": {**PROPOSED["spec"], "evidence": []}}
    approved = {**other, "status": decided(PROPOSED, approved=True)["status"]}
    assert phase_of(approved, STUCK, node("Unknown")) == "Proposed"
    unbound = decided(PROPOSED, approved=True, approvedSpec="")
    assert phase_of(unbound, STUCK, node("Unknown")) == "Proposed"


@pytest.mark.parametrize(
    ("maker", "subject"),
    [("jane", {}), (None, {}), (REPAIR, {"namespace": "bank"}), (REPAIR, {"namespace": ""})],
)
def test_nothing_is_done_about_a_proposal_that_repair_did_not_make(maker: str | None, subject: Obj) -> None:
    spec = {**PROPOSED["spec"], "subject": {**PROPOSED["spec"]["subject"], **subject}}
    forged = decided({**PROPOSED, "spec": spec}, approved=True, maker=maker)
    assert phase_of(forged, STUCK, node("Unknown")) == "Obsolete"


@pytest.mark.parametrize(("problem", "action"), [(STRANDED, "RemoveFinalizer"), ("Bored", "Delete")])
def test_an_action_that_repair_does_not_propose_for_a_problem_is_not_carried_out(
    problem: str, action: str
) -> None:
    spec = {**PROPOSED["spec"], "problem": problem, "action": action}
    forged = decided({**PROPOSED, "spec": spec}, approved=True)
    assert phase_of(forged, STUCK, node("Unknown")) == "Obsolete"


def test_an_approval_whose_evidence_has_passed_is_not_carried_out() -> None:
    approved = decided(PROPOSED, approved=True)
    assert phase_of(approved, STUCK, node("True")) == "Obsolete"
    assert phase_of(approved, pod(), node("Unknown")) == "Obsolete"
    assert phase_of(approved, pod(deletionTimestamp=EARLIER), node("Unknown")) == "Obsolete"
    assert phase_of(approved, STUCK, None) == "Approved"


def test_a_proposal_whose_subject_is_gone_is_over() -> None:
    assert phase_of(decided(PROPOSED), pod(uid="another")) == "Obsolete"
    assert phase_of(decided(PROPOSED, phase="Approved"), None) == "Done"


def progress(generation: int = 42, **condition: object) -> Obj:
    said = [{"type": "RepairComplete", **condition}] if condition else []
    return {
        "metadata": {"name": "deployment-risk-api", "namespace": "shop", "uid": "p"},
        "status": {"observedGeneration": generation, "conditions": said},
    }


def test_a_workload_of_which_nothing_is_left_behind_says_so_for_its_generation() -> None:
    ends = loose_ends([reservation()], [pod()], [], now_ns=NOW_NS)
    (write,) = plan_complete(progress(), ends, now=NOW).statuses
    (condition,) = write.status["conditions"]
    assert (condition["type"], condition["status"], condition["observedGeneration"]) == (
        "RepairComplete", "True", 42,
    )  # fmt: skip


def test_a_reservation_for_nobody_and_an_open_proposal_are_loose_ends() -> None:
    proposed = proposal(pod(), "Pod", STRANDED, "…")
    assert loose_ends([reservation()], [], [proposed], now_ns=NOW_NS) == [
        "reservation r1 has expired or lost its pod, but holds capacity",
        f"proposal {proposed['metadata']['name']} waits for approval",
    ]
    done = {**proposed, "status": {"phase": "Done"}}
    assert loose_ends([reservation(phase="Released")], [], [done], now_ns=NOW_NS) == []


def test_of_a_workload_whose_progress_says_nothing_yet_nothing_is_said() -> None:
    assert plan_complete(progress(generation=0), [], now=NOW) == NOTHING
