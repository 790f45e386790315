"""What a program asks for in somebody's name: the server makes it wait for the approval of somebody else."""

from __future__ import annotations

from pathlib import Path

import msgspec
from tests.api.harness import ADMIN, JANE, Answer, Api, MovedClock, tell
from tests.security.people import RBAC, grant, grant_rule

from fathom.kinds.runbook import spec_hash
from fathom.model.objects import Obj
from fathom.steer.runbook_library import library
from fathom.steer.templates import resolved

OWN = "/apis/fathom.dev/v1alpha1/namespaces/default"
THROUGH = "assistant probe 1.0 via fathom mcp"
SPEC: Obj = {
    "target": "workload/web",
    "scope": "cluster",
    "reason": "a drill",
    "expiresAfter": "10m",
    "changes": {"pauseAutoscaler": True},
}
OVERRIDE = f"{OWN}/scheduleroverrides/pause"


def test_an_override_that_a_program_asked_for_waits_although_approvals_are_off(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await grant(api, "jane", "admin", "default")
        at_once = await create(api, "SchedulerOverride", "now", SPEC)
        assert "approval" not in at_once.obj["status"]
        made = await _proposed(api)
        asked = made["status"]["approval"]
        assert (made["status"]["author"], asked["required"], asked["requestedBy"]) == (
            "admin",
            True,
            ["admin"],
        )
        assert "expiresAt" not in made["status"]
        decision = {"status": {"approval": {"approved": True, "specHash": asked["specHash"]}}}
        own = await api.patch(f"{OVERRIDE}/approval", decision)
        assert (own.status, "somebody else must" in own.obj["message"]) == (403, True)
        approved = await by_jane(api, f"{OVERRIDE}/approval", decision)
        assert approved.status == 200, approved.obj
        assert (approved.obj["status"]["approval"]["approver"], "expiresAt" in approved.obj["status"]) == (
            "jane",
            True,
        )

    tell(story, tmp_path)


def test_who_asked_never_changes_and_an_edited_proposal_waits_again(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await _proposed(api)
        for other in ("", "assistant other 2.0 via fathom mcp"):
            changed = await api.patch(OVERRIDE, {"spec": {"requestedThrough": other}})
            assert (changed.status, changed.causes) == (422, [("spec.requestedThrough", "FieldValueInvalid")])
        added = await create(api, "SchedulerOverride", "now", SPEC)
        assert added.status == 201
        later = await api.patch(f"{OWN}/scheduleroverrides/now", {"spec": {"requestedThrough": THROUGH}})
        assert (later.status, later.causes) == (422, [("spec.requestedThrough", "FieldValueInvalid")])
        edited = await api.patch(OVERRIDE, {"spec": {"expiresAfter": "20m", "reason": "a longer drill"}})
        assert edited.obj["status"]["approval"]["required"] is True

    tell(story, tmp_path)


def test_a_program_asks_for_no_decision_of_a_person_and_names_itself_in_plain_text(tmp_path: Path) -> None:
    refused: list[tuple[Obj, str]] = [
        ({"changes": {"approveRepairs": ["r"]}}, "spec.changes.approveRepairs"),
        ({"changes": {"breakGlassRole": "fixer"}}, "spec.changes.breakGlassRole"),
        ({"requestedThrough": "a\nb"}, "spec.requestedThrough"),
        ({"requestedThrough": "\u202eevil"}, "spec.requestedThrough"),
        ({"requestedThrough": "   "}, "spec.requestedThrough"),
        ({"requestedThrough": "x" * 129}, "spec.requestedThrough"),
    ]

    async def story(api: Api) -> None:
        for part, field in refused:
            spec = {**SPEC, "requestedThrough": THROUGH, **part}
            made = await create(api, "SchedulerOverride", "no", spec)
            assert (made.status, field in [name for name, _ in made.causes]) == (422, True), made.obj

    tell(story, tmp_path)


def test_nobody_carries_out_a_run_that_a_program_asked_for_before_another_person_approves(
    tmp_path: Path,
) -> None:
    async def story(api: Api) -> None:
        await grant(api, "jane", "admin", "default")
        run, path = await proposed_run(api), f"{OWN}/runbookruns/r"
        assert {name: run["status"][name] for name in ("author", "phase", "reason")} == {
            "author": "admin",
            "phase": "Pending",
            "reason": "WaitingForApproval",
        }
        begins = {"status": {"phase": "Running"}}
        for token in (ADMIN, JANE):
            begun = await api.patch(f"{path}/status", begins, token=token)
            assert (begun.status, "fathom runbook approve r -n default" in begun.obj["message"]) == (
                403,
                True,
            )
        forged = {"status": {"phase": "Running", "approval": {"required": False}}}
        assert (await api.patch(f"{path}/status", forged)).status == 403
        decision = {"status": {"approval": {"approved": True, "specHash": "another"}}}
        stale = await by_jane(api, f"{path}/approval", decision)
        assert stale.status == 409
        decision["status"]["approval"]["specHash"] = run["status"]["approval"]["specHash"]
        own = await api.patch(f"{path}/approval", decision)
        assert (own.status, "somebody else must" in own.obj["message"]) == (403, True)
        approved = await by_jane(api, f"{path}/approval", decision)
        assert (approved.status, approved.obj["status"]["approval"]["approver"]) == (200, "jane")
        assert (await api.patch(f"{path}/status", begins)).status == 200

    tell(story, tmp_path)


def test_a_refused_run_and_one_that_waited_for_an_hour_are_not_carried_out(tmp_path: Path) -> None:
    clock = MovedClock()

    async def story(api: Api) -> None:
        await grant(api, "jane", "admin", "default")
        run, path = await proposed_run(api), f"{OWN}/runbookruns/r"
        seen = run["status"]["approval"]["specHash"]
        no = {"status": {"approval": {"approved": False, "specHash": seen}}}
        refused = await by_jane(api, f"{path}/approval", no)
        assert (refused.obj["status"]["reason"], refused.obj["status"]["message"]) == (
            "Refused",
            "refused by jane",
        )
        begun = await api.patch(f"{path}/status", {"status": {"phase": "Running"}})
        assert (begun.status, "jane has refused it" in begun.obj["message"]) == (403, True)
        clock.move(minutes=61)
        yes = {"status": {"approval": {"approved": True, "specHash": seen}}}
        late = await by_jane(api, f"{path}/approval", yes)
        assert (late.status, "more than an hour" in late.obj["message"]) == (403, True)

    tell(story, tmp_path, clock=clock)


def test_break_glass_approves_no_run(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await proposed_run(api)
        steers = {"apiGroups": ["fathom.dev"], "resources": ["scheduleroverrides"]}
        await grant_rule(api, "jane", "breaks", {**steers, "verbs": ["create", "break-glass"]})
        role = {
            "metadata": {"name": "fixer", "annotations": {"fathom.dev/break-glass": "true"}},
            "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
        }
        assert (await api.post(f"{RBAC}/clusterroles", role)).status == 201
        spec = {**SPEC, "changes": {"breakGlassRole": "fixer"}}
        assert (await create(api, "SchedulerOverride", "glass", spec, token=JANE)).status == 201
        path = f"{OWN}/runbookruns/r"
        assert (await by_jane(api, path, {"metadata": {"labels": {"seen": "yes"}}})).status == 200
        refused = await by_jane(api, f"{path}/approval", {"status": {"approval": {"approved": True}}})
        assert (refused.status, 'User "jane" cannot patch' in refused.obj["message"]) == (403, True)

    tell(story, tmp_path)


async def create(api: Api, kind: str, name: str, spec: Obj, *, token: str = ADMIN) -> Answer:
    body = {"apiVersion": "fathom.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    return await api.post(f"{OWN}/{kind.lower()}s", body, token=token)


async def by_jane(api: Api, path: str, body: Obj) -> Answer:
    return await api.patch(path, body, token=JANE)


async def _proposed(api: Api) -> Obj:
    spec = {**SPEC, "requestedThrough": THROUGH}
    made = await create(api, "SchedulerOverride", "pause", spec)
    assert made.status == 201, made.obj
    proposed: Obj = made.obj
    return proposed


async def proposed_run(api: Api) -> Obj:
    book = library()["freeze-autoscaling"].spec
    spec = {
        "runbook": {"name": "freeze-autoscaling", "source": "library", "hash": spec_hash(book)},
        "content": msgspec.json.decode(msgspec.json.encode(book)),
        "parameters": resolved("freeze-autoscaling", book, {"workload": "web", "reason": "a drill"}),
        "requestedThrough": THROUGH,
    }
    made = await create(api, "RunbookRun", "r", spec)
    assert made.status == 201, made.obj
    proposed: Obj = made.obj
    return proposed
