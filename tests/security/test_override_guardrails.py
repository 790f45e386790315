"""Overrides through the API: who may write what, within which limits, and who must approve."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.api.harness import ADMIN, Api, MovedClock, deployment, tell
from tests.security.people import CONTROLLERS, OWN, grant, grant_rule, introduce, lead, namespaces, own
from tests.security.steering import (
    ANN,
    LIMITS,
    MINE,
    ROOT,
    SHIFT,
    SYSTEM,
    TOM,
    decide,
    gather,
    limit,
    message,
    override,
)

from fathom.kinds.override_changes import CHANGES
from fathom.kinds.override_stamps import hash_of
from fathom.kinds.scheduler_override import SchedulerOverride, override_active
from fathom.kinds.shape import read
from fathom.model.objects import Obj
from fathom.model.times import timestamp
from fathom.model.user import User
from fathom.record.audit_reading import read_entries

OF_EACH_VERB: dict[str, tuple[str, Obj]] = {
    "pause": ("workload/web", {"pauseAutoscaler": True}),
    "constrain": ("workload/web", {"avoidNodes": ["n"]}),
    "grant": ("workload/web", {"raisePriority": 5}),
    "approve-repairs": ("workload/web", {"approveRepairs": ["p"]}),
    "shift-traffic": ("workload/web", {"trafficWeights": {"eu": 1}}),
    "break-glass": ("workload/web", {"breakGlassRole": "fixer"}),
    "cordon": ("node/n", {"cordon": True}),
    "drain": ("node/n", {"drain": True}),
}


def test_each_verb_of_the_table_has_a_change_here() -> None:
    assert set(OF_EACH_VERB) == {rule.verb for rule in CHANGES.values()}


@pytest.mark.parametrize("verb", OF_EACH_VERB)
def test_a_change_needs_the_verb_of_its_row_beside_create(verb: str, tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await gather(api)
        target, changes = OF_EACH_VERB[verb]
        where = SYSTEM if "node" in target else MINE
        writes = {"verbs": ["create"], "apiGroups": ["fathom.dev"], "resources": ["scheduleroverrides"]}
        others = sorted({rule.verb for rule in CHANGES.values()} - {verb})
        await grant_rule(api, "eve", "creates", {**writes, "verbs": ["create", *others]})
        await grant_rule(api, "sam", "steers", {**writes, "verbs": ["create", verb]})
        introduce(api, User("eve"), User("sam"))
        wanted = override(target=target, changes=changes)
        refused = await api.post(where, wanted, token="eve")
        assert (refused.status, refused.causes) == (
            403,
            [(f"spec.changes.{next(iter(changes))}", "FieldValueForbidden")],
        )
        assert f'needs the verb "{verb}" on scheduleroverrides.fathom.dev' in message(refused)
        assert (await api.post(where, wanted, token="sam")).status == 201

    tell(story, tmp_path)


@pytest.mark.parametrize(
    ("verb", "allowed"),
    [
        ("pause", True), ("constrain", True), ("grant", True), ("approve-repairs", True),
        ("shift-traffic", True), ("break-glass", False), ("cordon", False), ("drain", False),
    ],
)  # fmt: skip
def test_who_administers_a_namespace_steers_its_workloads_and_no_more(
    verb: str, allowed: bool, tmp_path: Path
) -> None:
    async def story(api: Api) -> None:
        await gather(api)
        await grant(api, ANN, "admin", "fathom-system")
        target, changes = OF_EACH_VERB[verb]
        where = SYSTEM if "node" in target else MINE
        made = await api.post(where, override(target=target, changes=changes), token=ANN)
        assert made.status == (201 if allowed else 403), made.obj

    tell(story, tmp_path)


def test_a_write_that_leaves_the_spec_needs_no_verb(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await gather(api)
        assert (await api.post(SYSTEM, override(target="node/n", changes={"cordon": True}))).status == 201
        await grant(api, ANN, "admin", "fathom-system")
        label = {"metadata": {"labels": {"a": "b"}}}
        assert (await api.patch(f"{SYSTEM}/o", label, token=ANN)).status == 200
        other = {"spec": {"reason": "another"}}
        assert (await api.patch(f"{SYSTEM}/o", other, token=ANN)).status == 403
        assert (await api.delete(f"{SYSTEM}/o", token=ANN)).status == 200  # Ending is always allowed.

    tell(story, tmp_path)


def test_what_it_concerns_is_counted_and_limited(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await gather(api)
        for number in range(3):
            zone = {"topology.kubernetes.io/zone": "a" if number else "b"}
            await api.post("/api/v1/nodes", {"metadata": {"name": f"n{number}", "labels": zone}})
        made = await api.post(SYSTEM, override(target="zone/a", changes={"cordon": True}))
        assert made.obj["status"]["blastRadius"] == {"nodes": 2, "zonePercent": 100}
        await limit(api, maxNodes=1, maxZonePercent=60)
        refused = await api.post(SYSTEM, override("more", target="zone/a", changes={"drain": True}))
        assert (refused.status, refused.causes) == (403, [("spec.target", "BeyondSteeringLimits")] * 2)
        assert "it concerns 2 nodes, and SteeringLimits fathom-system/default allows 1" in message(refused)
        one = override("one", target="node/n0", changes={"cordon": True})
        refused = await api.post(SYSTEM, one)  # It is the only node of its zone.
        assert "100 % of a zone's nodes" in message(refused)

    tell(story, tmp_path)


def test_what_overrides_in_force_concern_is_limited_together(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await gather(api)
        for number in range(4):
            await api.post("/api/v1/nodes", {"metadata": {"name": f"n{number}"}})
        await limit(api, maxNodes=2)

        def cordon(name: str, node: str, change: str = "cordon") -> Obj:
            return override(name, target=f"node/{node}", changes={change: True})

        assert (await api.post(SYSTEM, cordon("one", "n0"))).status == 201
        assert (await api.post(SYSTEM, cordon("two", "n1"))).status == 201
        refused = await api.post(SYSTEM, cordon("three", "n2"))
        assert (refused.status, refused.causes) == (403, [("spec.target", "BeyondSteeringLimits")])
        assert (
            "together with the active overrides fathom-system/one and fathom-system/two it concerns 3 nodes,"
            " and SteeringLimits fathom-system/default allows 2 (maxNodes)"
        ) in message(refused)
        # It takes no node that is not taken.
        assert (await api.post(SYSTEM, cordon("again", "n1", "drain"))).status == 201
        assert (await api.post(MINE, override("other"))).status == 201
        for ended in ("two", "again"):
            assert (await api.delete(f"{SYSTEM}/{ended}")).status == 200
        assert (await api.post(SYSTEM, cordon("three", "n2"))).status == 201
        wider = {"spec": {"reason": "more", "scope": "cluster", "changes": {"drain": True}}}
        assert (await api.patch(f"{SYSTEM}/three", wider)).status == 200  # It is not counted twice.

    tell(story, tmp_path)


def test_an_override_that_waits_is_counted_when_it_is_approved(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await gather(api)
        for number in range(2):
            await api.post("/api/v1/nodes", {"metadata": {"name": f"n{number}"}})
        await limit(api, maxNodes=1, approvals="on")
        drain = override("waits", target="node/n0", changes={"drain": True})
        assert (await api.post(SYSTEM, drain)).status == 201
        assert (await api.post(SYSTEM, override(target="node/n1", changes={"cordon": True}))).status == 201
        refused = await decide(api, f"{SYSTEM}/waits", ROOT)
        assert (refused.status, refused.causes) == (403, [("spec.target", "BeyondSteeringLimits")])
        assert "together with the active override fathom-system/o it concerns 2 nodes" in message(refused)

    tell(story, tmp_path)


def test_a_cluster_begins_with_limits_that_anybody_can_read_and_few_can_write(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await gather(api)
        assert (await api.get(LIMITS, token=ANN)).obj["spec"] == {
            "maxPods": 1000,
            "maxNodes": 100,
            "maxZonePercent": 100,
            "maxTenants": 20,
            "maxExtensions": 3,
            "maxTotalDuration": "168h",
            "approvals": "off",
            "reservedReplicasWithoutApproval": 10,
        }
        await grant(api, ANN, "admin", "fathom-system")
        assert (await api.patch(LIMITS, {"spec": {"maxPods": 9}}, token=ANN)).status == 403
        elsewhere = {"kind": "SteeringLimits", "apiVersion": "fathom.dev/v1alpha1", "spec": {}}
        for namespace, name in (("fathom-system", "more"), ("mine", "default")):
            path = f"{OWN}/namespaces/{namespace}/steeringlimits"
            answer = await api.post(path, {**elsewhere, "metadata": {"name": name}})
            assert (answer.status, answer.causes) == (422, [("metadata.name", "FieldValueInvalid")])

    tell(story, tmp_path)


def test_a_contradiction_is_refused_and_names_the_other(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await gather(api)
        assert (await api.post(MINE, override("first", changes=SHIFT), token=ANN)).status == 201
        other = override("second", changes={"trafficWeights": {"eu-west": 2}}, target="deployment/web")
        refused = await api.post(MINE, other, token=TOM)
        assert (refused.status, refused.causes) == (409, [("spec.changes.trafficWeights", "Contradiction")])
        assert 'trafficWeights contradicts the active override "first" (by ann, until ' in message(refused)
        same = await api.post(MINE, override("same", changes=SHIFT), token=TOM)
        assert same.status == 201
        assert (await api.delete(f"{MINE}/first")).status == 200
        assert (await api.delete(f"{MINE}/same")).status == 200
        assert (await api.post(MINE, other, token=TOM)).status == 201

    tell(story, tmp_path)


def test_an_ambiguous_target_is_refused_and_a_missing_one_warned_of(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await gather(api)
        answer = await api.raw("POST", MINE, override(target="deployment/none"), token=ANN)
        assert [value for name, value in answer.headers if name == "warning"] == [
            '299 - "spec.target: namespace \\"mine\\" has no deployment \\"none\\""'
        ]
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
        job = {"metadata": {"name": "web"}, "spec": {"template": template}}
        assert (await api.post("/apis/batch/v1/namespaces/mine/jobs", job)).status == 201
        assert (await api.post("/apis/apps/v1/namespaces/mine/deployments", deployment("web"))).status == 201
        refused = await api.post(MINE, override("two"), token=ANN)
        assert (refused.status, refused.causes) == (422, [("spec.target", "FieldValueInvalid")])
        assert "a Deployment and a Job have this name" in message(refused)
        assert (await api.post(MINE, override("two", target="job/web"), token=ANN)).status == 201

    tell(story, tmp_path)


def test_extensions_are_counted_and_bounded_and_what_has_ended_stays_ended(tmp_path: Path) -> None:
    clock = MovedClock()

    async def story(api: Api) -> None:
        await gather(api)
        await limit(api, maxExtensions=2, maxTotalDuration="1h")
        assert (await api.post(MINE, override(), token=ANN)).status == 201

        async def extend(lasts: str, reason: str) -> tuple[int, object]:
            spec = {"expiresAfter": lasts, "reason": reason}
            answer = await api.patch(f"{MINE}/o", {"spec": spec}, token=TOM)
            done = answer.status == 200
            return answer.status, answer.obj["status"]["extensions"] if done else message(answer)

        assert await extend("20m", "first") == (200, 1)
        assert await extend("5m", "it is nearly over") == (200, 1)
        assert (await extend("61m", "long"))[0] == 403
        assert await extend("30m", "second") == (200, 2)
        status, said = await extend("40m", "third")
        assert (status, "it would be extension 3" in str(said)) == (403, True)
        clock.move(minutes=31)
        status, said = await extend("20m", "late")
        assert (status, "the override has ended" in str(said)) == (403, True)
        assert (await api.get(f"{MINE}/o")).obj["status"]["author"] == ANN

    tell(story, tmp_path, clock=clock)


def in_force(api: Api, obj: Obj) -> bool:
    return override_active(read(SchedulerOverride, obj), api.core.outside.clock.now_ns())


def test_the_lessons_override_and_break_glass_wait_for_nobody_but_a_shift_does(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await gather(api)
        await limit(api, approvals="on")
        lesson = {"pauseAutoscaler": True, "avoidZones": ["a"], "allowReservedCapacityClass": "recovery"}
        made = (await api.post(MINE, override("lesson", changes=lesson))).obj
        assert ("approval" in made["status"], in_force(api, made)) == (False, True)
        glass = (await api.post(MINE, override("glass", changes={"breakGlassRole": "fixer"}))).obj
        assert ("approval" in glass["status"], in_force(api, glass)) == (False, True)
        shift = (await api.post(MINE, override("shift", changes=SHIFT), token=ANN)).obj
        assert (shift["status"]["approval"]["required"], in_force(api, shift)) == (True, False)
        assert "expiresAt" not in shift["status"]

    tell(story, tmp_path)


def test_somebody_else_approves_what_was_read_and_nobody_else(tmp_path: Path) -> None:
    bot = User("system:serviceaccount:mine:bot", ("system:masters",))
    ours = User(CONTROLLERS, ("system:masters",))

    async def story(api: Api) -> None:
        await gather(api, bot, ours)
        fence = await lead(api, CONTROLLERS, "fathom-system/controllers")
        await limit(api, approvals="on")
        made = (await api.post(MINE, override(changes=SHIFT), token=ANN)).obj
        one = f"{MINE}/o"
        for who, as_user in ((ANN, ""), (bot.name, ""), (ROOT, ANN), (bot.name, TOM)):
            refused = await decide(api, one, who, as_user=as_user)
            assert (refused.status, "may not decide about" in message(refused)) == (403, True), (
                who,
                as_user,
                refused.obj,
            )
        headers = {"content-type": "application/merge-patch+json", **fence}
        by_us = {"status": {"approval": {"approved": True}}}
        assert (
            await api.call("PATCH", f"{one}/approval", by_us, token=ours.name, headers=headers)
        ).status == 403
        stale = await decide(api, one, TOM, specHash="0" * 64)
        assert (stale.status, "the spec has changed since" in message(stale)) == (409, True)
        given = await decide(api, one, TOM, specHash=made["status"]["approval"]["specHash"])
        assert (given.status, given.obj["status"]["approval"]["approver"]) == (200, TOM)
        assert in_force(api, given.obj)

    tell(story, tmp_path)


def test_who_impersonated_the_author_or_edited_the_spec_does_not_approve_it(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await gather(api)
        await limit(api, approvals="on")
        made = await api.call(
            "POST", MINE, override(changes=SHIFT), token=ROOT, headers={"impersonate-user": ANN}
        )
        assert made.obj["status"]["author"] == ANN
        assert made.obj["status"]["authorImpersonatedBy"] == ROOT
        for who in (ANN, ROOT):
            assert (await decide(api, f"{MINE}/o", who)).status == 403
        assert (await decide(api, f"{MINE}/o", TOM)).status == 200
        edited = await api.patch(f"{MINE}/o", {"spec": {"reason": "other"}}, token=TOM)
        assert (edited.status, in_force(api, edited.obj)) == (200, False)
        assert "approved" not in edited.obj["status"]["approval"]
        assert (await decide(api, f"{MINE}/o", TOM)).status == 403  # Tom has written this spec.
        assert (await decide(api, f"{MINE}/o", ADMIN)).status == 200

    tell(story, tmp_path)


def test_an_approval_that_nobody_gives_within_an_hour_comes_too_late(tmp_path: Path) -> None:
    clock = MovedClock()

    async def story(api: Api) -> None:
        await gather(api)
        await limit(api, approvals="on")
        await api.post(MINE, override(changes=SHIFT), token=ANN)
        await api.post(MINE, override("other", changes=SHIFT), token=ANN)
        clock.move(minutes=59)
        given = await decide(api, f"{MINE}/o", TOM)
        assert (given.status, in_force(api, given.obj)) == (200, True)
        clock.move(minutes=2)
        late = await decide(api, f"{MINE}/other", TOM)
        assert (late.status, "the override has ended" in message(late)) == (403, True)

    tell(story, tmp_path, clock=clock)


def test_a_refusal_and_what_needs_no_approval(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await gather(api)
        await api.post(MINE, override("plain"), token=ANN)
        refused = await decide(api, f"{MINE}/plain", TOM)
        assert (refused.status, "needs no approval" in message(refused)) == (403, True)
        await limit(api, approvals="on")
        await api.post(MINE, override(changes=SHIFT), token=ANN)
        said_no = await decide(api, f"{MINE}/o", TOM, approved=False)
        assert (said_no.obj["status"]["approval"]["approved"], in_force(api, said_no.obj)) == (False, False)

    tell(story, tmp_path)


def test_two_that_contradict_each_other_are_not_both_approved(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await gather(api)
        await limit(api, approvals="on")
        await api.post(MINE, override("one", changes=SHIFT), token=ANN)
        other = override("two", changes={"trafficWeights": {"eu-west": 3}})
        assert (await api.post(MINE, other, token=ANN)).status == 201  # Neither is in force.
        assert (await decide(api, f"{MINE}/one", TOM)).status == 200
        refused = await decide(api, f"{MINE}/two", TOM)
        assert (refused.status, refused.causes) == (409, [("spec.changes.trafficWeights", "Contradiction")])

    tell(story, tmp_path)


def test_an_approval_is_a_change_of_the_rules_of_placement(tmp_path: Path) -> None:
    """A placement that was checked before it must not be committed after it."""

    async def story(api: Api) -> None:
        await gather(api)
        await limit(api, approvals="on")
        await api.post(SYSTEM, override(target="node/n", changes={"drain": True}))
        before = api.core.cache.revision("placementrules.fathom.dev")
        assert (await decide(api, f"{SYSTEM}/o", ROOT)).status == 200
        assert api.core.cache.revision("placementrules.fathom.dev") > before

    tell(story, tmp_path)


def test_no_writer_of_status_forges_what_the_server_stamps(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await gather(api)
        await limit(api, approvals="on")
        made = (await api.post(MINE, override(changes=SHIFT), token=ANN)).obj
        forged = {
            "author": "nobody",
            "expiresAt": "2999-01-01T00:00:00Z",
            "approval": {"required": False, "approved": True, "approver": TOM, "specHash": hash_of(made)},
            "extensions": 9,
            "blastRadius": {"pods": 7},
            "active": True,
        }
        assert (await api.patch(f"{MINE}/o/status", {"status": forged}, token=ANN)).status == 403
        told = await api.patch(f"{MINE}/o/status", {"status": forged}, token=ROOT)
        assert told.obj["status"] == {**made["status"], "active": True}
        assert not in_force(api, told.obj)

    tell(story, tmp_path)


def test_proposals_of_repair_are_approved_by_the_same_rules(tmp_path: Path) -> None:
    bot = User("system:serviceaccount:mine:bot", ("system:masters",))

    async def story(api: Api) -> None:
        await gather(api, bot, User(CONTROLLERS))
        fence = await lead(api, CONTROLLERS, "fathom-system/controllers")
        path = MINE.replace("scheduleroverrides", "repairproposals")
        about = {
            "subject": {"kind": "Pod", "name": "x", "namespace": "mine"},
            "problem": "p",
            "action": "Delete",
        }
        made = await api.post(path, own("repairproposals", "p", about), token=CONTROLLERS, headers=fence)
        assert made.status == 201, made.obj
        merge = {"content-type": "application/merge-patch+json"}
        yes = {"status": {"approved": True}}
        for who, as_user in ((bot.name, ""), (bot.name, TOM)):
            headers = {**merge, **({"impersonate-user": as_user} if as_user else {})}
            assert (
                await api.call("PATCH", f"{path}/p/approval", yes, token=who, headers=headers)
            ).status == 403
        # Nor by an override.
        by_override = override(changes={"approveRepairs": ["p"]})
        for headers in ({}, {"impersonate-user": TOM}):
            tried = await api.call("POST", MINE, by_override, token=bot.name, headers=headers)
            assert (tried.status, "only a person may" in message(tried)) == (403, True), tried.obj
        assert (await api.post(MINE, by_override, token=ANN)).status == 201
        assert (await api.call("PATCH", f"{path}/p/approval", yes, token=TOM, headers=merge)).status == 200

    tell(story, tmp_path)


def test_an_override_of_another_namespace_is_not_counted(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await gather(api)
        await namespaces(api, "other")
        theirs = MINE.replace("mine", "other")
        assert (await api.post(theirs, override(changes=SHIFT))).status == 201
        other = override(changes={"trafficWeights": {"eu-west": 3}})
        assert (await api.post(MINE, other, token=ANN)).status == 201

    tell(story, tmp_path)


def test_only_the_controllers_and_the_clusters_administrator_remove_fathoms_finalizer(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await gather(api, User(CONTROLLERS, ("system:masters",)))
        held = override()
        held["metadata"]["finalizers"] = ["fathom.dev/proof", "example.com/mine"]
        made = await api.post(MINE, held, token=ANN)
        fathoms = [name for name in made.obj["metadata"]["finalizers"] if name.startswith("fathom.dev/")]

        async def left(finalizers: list[str], **how: str) -> int:
            change = {"metadata": {"finalizers": finalizers}}
            headers = {"content-type": "application/merge-patch+json"}
            if "as_user" in how:
                headers["impersonate-user"] = how["as_user"]
            answer = await api.call("PATCH", f"{MINE}/o", change, token=how["by"], headers=headers)
            return answer.status

        assert await left(["example.com/mine"], by=ANN) == 403
        assert await left(["example.com/mine"], by=ROOT) == 403
        assert await left(["example.com/mine"], by=ROOT, as_user=CONTROLLERS) == 403
        assert await left(fathoms, by=ANN) == 200
        assert await left([], by=ADMIN) == 200

    tell(story, tmp_path)


LEASE = "/apis/coordination.k8s.io/v1/namespaces/fathom-system/leases"


def test_where_controllers_run_nobody_takes_the_proof_away(tmp_path: Path) -> None:
    clock = MovedClock()

    async def story(api: Api) -> None:
        await gather(api, User(CONTROLLERS))
        for name in ("soon", "later"):
            assert (await api.post(MINE, override(name), token=ANN)).status == 201
        spec = {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": timestamp(clock.now_ns())}
        assert (await api.post(LEASE, {"metadata": {"name": "controllers"}, "spec": spec})).status == 201
        bare = {"metadata": {"finalizers": None}}
        refused = await api.patch(f"{MINE}/soon", bare)
        assert (refused.status, "the controllers run" in message(refused)) == (403, True)
        assert (await api.delete(f"{MINE}/soon")).status == 200
        for reason, code in (("Ended", 403), ("Undoing", 403), ("Residue", 200)):
            proof = {"type": "RepairComplete", "status": "False", "reason": reason, "observedGeneration": 2}
            reported = await api.patch(f"{MINE}/soon/status", {"status": {"conditions": [proof]}})
            assert (reported.status, (await api.patch(f"{MINE}/soon", bare)).status) == (200, code)
        assert (await api.patch(f"{MINE}/later", bare)).status == 403
        clock.move(minutes=1)
        assert (await api.patch(f"{MINE}/later", bare)).status == 200

    tell(story, tmp_path, clock=clock)


def test_the_audit_log_alone_shows_that_what_was_approved_is_what_was_written(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await gather(api)
        await limit(api, approvals="on")
        made = (await api.post(MINE, override(changes=SHIFT), token=ANN)).obj
        assert (await decide(api, f"{MINE}/o", TOM)).status == 200
        api.audit.flush()
        noted = [
            (entry.user, entry.subresource, dict(verdict.notes)["spec-hash"])
            for entry in read_entries(tmp_path / "audit")
            if entry.resource == "scheduleroverrides.fathom.dev"
            for verdict in entry.admission
            if verdict.plugin == "SchedulerOverrides" and verdict.notes
        ]
        assert noted == [(ANN, "", hash_of(made)), (TOM, "approval", hash_of(made))]

    tell(story, tmp_path)
