"""Break-glass: what the author of an override gets by it, for how long, and what is left of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.api.harness import ADMIN, Answer, Api, MovedClock, config_map, tell
from tests.security.people import OWN, RBAC, grant, grant_rule, introduce, namespaces
from tests.security.steering import ANN, MINE, ROOT, SYSTEM, TOM, gather, message, override

from fathom.model.objects import Obj
from fathom.model.user import User

FIXER = {"breakGlassRole": "fixer"}
MARKED = {"annotations": {"fathom.dev/break-glass": "true"}}
RULES = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
REVIEWS = MINE.replace("scheduleroverrides", "overridereviews")
MAPS = "/api/v1/namespaces/mine/configmaps"
SECRETS = "/api/v1/namespaces/kube-system/secrets"


async def prepare(api: Api, *others: User, **meta: Any) -> None:
    """A role for it, and Eve, who may break the glass in `mine` and nothing else; Tom administers `mine`."""
    await gather(api, User("eve"), *others)
    await namespaces(api, "theirs")
    role = {"metadata": {"name": "fixer", **(meta or MARKED)}, "rules": RULES}
    assert (await api.post(f"{RBAC}/clusterroles", role)).status == 201
    may = {"verbs": ["create", "update", "patch", "delete", "break-glass"], "apiGroups": ["fathom.dev"]}
    await grant_rule(api, "eve", "breaks-glass", {**may, "resources": ["scheduleroverrides"]})


async def breaks(api: Api, where: str = MINE, by: str = "eve", **headers: str) -> Answer:
    return await api.call("POST", where, override(changes=FIXER), token=by, headers=headers)


def test_the_author_has_the_rules_of_the_role_in_the_namespace_while_it_lasts(tmp_path: Path) -> None:
    clock = MovedClock()

    async def story(api: Api) -> None:
        await prepare(api)
        before = await api.post(MAPS, config_map("m"), token="eve")
        assert before.status == 403
        made = await breaks(api)
        assert made.status == 201, made.obj
        assert made.obj["status"]["affectedControllers"] == ["authorizer"]
        assert (await api.post(MAPS, config_map("m"), token="eve")).status == 201
        elsewhere = ("/api/v1/namespaces/theirs/configmaps", SECRETS, "/api/v1/nodes", "/metrics")
        assert [(await api.get(path, token="eve")).status for path in elsewhere] == [403] * 4
        assert (await api.get(MAPS, token="someone")).status == 401
        introduce(api, User("eve"), User("sam"))
        assert (await api.get(MAPS, token="sam")).status == 403
        clock.move(minutes=10)
        assert (await api.get(MAPS, token="eve")).status == 403

    tell(story, tmp_path, clock=clock)


def test_its_rules_are_listed_for_who_asks_what_it_may_do(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await prepare(api)
        path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
        asked = {"kind": "SelfSubjectRulesReview", "apiVersion": "authorization.k8s.io/v1"}

        async def everything(namespace: str) -> bool:
            review = await api.post(path, {**asked, "spec": {"namespace": namespace}}, token="eve")
            rules = review.obj["status"]["resourceRules"]
            return {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]} in rules

        assert not await everything("mine")
        await breaks(api)
        assert (await everything("mine"), await everything("theirs")) == (True, False)

    tell(story, tmp_path)


def test_it_ends_when_the_override_is_deleted_or_its_role_is_no_longer_marked(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await prepare(api)
        await breaks(api)
        assert (await api.get(MAPS, token="eve")).status == 200
        unmarked = {"metadata": {"annotations": {"fathom.dev/break-glass": None}}}
        await api.patch(f"{RBAC}/clusterroles/fixer", unmarked)
        assert (await api.get(MAPS, token="eve")).status == 403
        await api.patch(f"{RBAC}/clusterroles/fixer", {"metadata": MARKED})
        assert (await api.get(MAPS, token="eve")).status == 200
        assert (await api.delete(f"{MINE}/o", token="eve")).status == 200
        assert (await api.get(MAPS, token="eve")).status == 403

    tell(story, tmp_path)


def test_from_the_system_namespace_it_is_for_the_whole_cluster(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await prepare(api)
        assert (await breaks(api, SYSTEM)).status == 201
        for path in (SECRETS, MAPS, "/api/v1/nodes"):
            assert (await api.get(path, token="eve")).status == 200

    tell(story, tmp_path)


@pytest.mark.parametrize(
    ("by", "headers", "meta"),
    [
        (ROOT, {"impersonate-user": "eve"}, MARKED),  # Somebody else under Eve's name.
        ("system:serviceaccount:mine:bot", {}, MARKED),
        ("eve", {}, {"labels": {"a": "b"}}),  # The role is not meant for it.
    ],
)
def test_it_is_for_a_person_under_the_own_name_and_for_a_role_that_is_marked(
    by: str, headers: dict[str, str], meta: Obj, tmp_path: Path
) -> None:
    async def story(api: Api) -> None:
        bot = User("system:serviceaccount:mine:bot", ("system:masters",))
        await prepare(api, bot, **meta)
        refused = await breaks(api, by=by, **headers)
        assert refused.status == 403, refused.obj
        assert (await api.get(REVIEWS)).obj["items"] == []

    tell(story, tmp_path)


def test_who_acts_as_the_author_has_nothing_by_it(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await prepare(api)
        await breaks(api)
        introduce(api, User("eve"), User("sam"))
        acting = {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"]}
        await grant_rule(api, "sam", "acts", acting)
        assert (await api.get(MAPS, token="eve")).status == 200
        assert (await api.get(MAPS, token="sam", headers={"impersonate-user": "eve"})).status == 403

    tell(story, tmp_path)


def test_the_rules_of_overrides_and_of_roles_are_out_of_its_reach(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await prepare(api)
        await breaks(api, SYSTEM)
        headers = {"impersonate-user": "tom"}
        assert (await api.get(MAPS, token="eve", headers=headers)).status == 403
        limits = f"{OWN}/namespaces/fathom-system/steeringlimits/default"
        assert (await api.patch(limits, {"spec": {"maxPods": 9}}, token="eve")).status == 403
        (review,) = (await api.get(REVIEWS.replace("mine", "fathom-system"))).obj["items"]
        one = f"{REVIEWS.replace('mine', 'fathom-system')}/{review['metadata']['name']}"
        assert (await api.delete(one, token="eve")).status == 403
        # Her own rights let her create overrides; the verb for this one she has not.
        paused = await api.post(MINE, override("p"), token="eve")
        assert (paused.status, 'needs the verb "pause"' in message(paused)) == (403, True)
        longer = {"spec": {"expiresAfter": "59m", "reason": "more"}}
        assert (await api.patch(f"{SYSTEM}/o", longer, token="eve")).status == 422
        binding = {
            "metadata": {"name": "for-ever"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "fixer"},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "eve"}],
        }
        for path in (f"{RBAC}/clusterrolebindings", f"{RBAC}/namespaces/mine/rolebindings"):
            kept = await api.post(path, binding, token="eve")
            assert (kept.status, "not currently held" in message(kept)) == (403, True), kept.obj

    tell(story, tmp_path)


def test_the_audit_log_says_which_writes_it_allowed(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await prepare(api)
        await breaks(api)
        await api.post(MAPS, config_map("m"), token="eve")
        await api.delete(MAPS, token="eve")
        api.audit.flush()
        entries = [json.loads(line) for line in api.audit.path.read_text().splitlines()]
        assert [
            (entry["verb"], entry["resource"], entry["break_glass"])
            for entry in entries
            if entry["user"] == "eve" and "break_glass" in entry
        ] == [("create", "configmaps", "mine/o"), ("deletecollection", "configmaps", "mine/o")]

    tell(story, tmp_path)


def test_a_review_is_made_with_it_and_closed_by_somebody_else(tmp_path: Path) -> None:
    clock = MovedClock()

    async def story(api: Api) -> None:
        await prepare(api)
        made = (await breaks(api)).obj
        (review,) = (await api.get(REVIEWS, token=TOM)).obj["items"]
        uid = made["metadata"]["uid"]
        assert review["metadata"]["name"] == f"o-{uid[:8]}"
        assert review["spec"] == {
            "override": {
                "apiVersion": "fathom.dev/v1alpha1",
                "kind": "SchedulerOverride",
                "namespace": "mine",
                "name": "o",
                "uid": uid,
            },
            "author": "eve",
            "role": "fixer",
            "reason": "incident",
            "startsAt": made["metadata"]["creationTimestamp"],
            "endsAt": made["status"]["expiresAt"],
        }
        assert review["status"] == {"phase": "Open"}
        one = f"{REVIEWS}/{review['metadata']['name']}"
        early = await close(api, one, TOM)
        assert (early.status, "still active" in message(early)) == (403, True)
        clock.move(minutes=10)
        await grant(api, "eve", "admin", "mine")
        assert (await close(api, one, "eve")).status == 403
        assert (await close(api, one, ROOT, as_user="eve")).status == 403
        assert (await api.delete(one)).status == 403  # It is open.
        disputed = await close(api, one, TOM, approved=False, findings="why the secrets?")
        assert disputed.obj["status"]["phase"] == "Disputed"
        closed = await close(api, one, ANN, findings="talked to her")
        status = {name: closed.obj["status"][name] for name in ("phase", "approved", "approver", "findings")}
        assert status == {"phase": "Closed", "approved": True, "approver": ANN, "findings": "talked to her"}
        assert (await close(api, one, TOM, approved=False)).status == 403
        assert (await api.patch(one, {"spec": {"author": "x"}})).status == 422
        assert (await api.patch(f"{one}/status", {"status": {"phase": "Open"}})).obj == closed.obj
        assert (await api.delete(one)).status == 200

    tell(story, tmp_path, clock=clock)


async def close(api: Api, path: str, by: str, *, as_user: str = "", **said: Any) -> Answer:
    headers = {"content-type": "application/merge-patch+json"}
    if as_user:
        headers["impersonate-user"] = as_user
    sent = {"status": {"approved": True, **said}}
    return await api.call("PATCH", f"{path}/approval", sent, token=by, headers=headers)


async def again(api: Api, name: str, where: str = MINE, by: str = "eve") -> Answer:
    return await api.call("POST", where, override(name, changes=FIXER), token=by)


def test_another_use_before_the_review_of_the_last_is_warned_of_and_in_the_audit_log(tmp_path: Path) -> None:
    clock = MovedClock()

    async def story(api: Api) -> None:
        await prepare(api)
        review = f"mine/o-{(await breaks(api)).obj['metadata']['uid'][:8]}"
        assert noted(api) == []
        clock.move(minutes=11)
        second = await api.raw("POST", MINE, override("second", changes=FIXER), token="eve")
        sentence = (
            f"eve has 1 use of break-glass that nobody has reviewed ({review}): ask somebody to review it"
        )
        assert second.status == 201
        assert f'299 - "{sentence}"' in [value for name, value in second.headers if name == "warning"]
        assert noted(api) == [("second", review)]

    tell(story, tmp_path, clock=clock)


def noted(api: Api) -> list[tuple[str, str]]:
    """Overrides in the audit log, with the reviews that were open when their author asked."""
    api.audit.flush()
    entries = [json.loads(line) for line in api.audit.path.read_text().splitlines()]
    return [
        (entry["name"], value)
        for entry in entries
        for verdict in entry.get("admission") or ()
        for key, value in verdict.get("notes") or ()
        if key == "unreviewed-break-glass"
    ]


def test_after_three_uses_that_nobody_has_reviewed_there_is_no_fourth(tmp_path: Path) -> None:
    clock = MovedClock()

    async def story(api: Api) -> None:
        await prepare(api)
        await namespaces(api, "other")
        other = MINE.replace("mine", "other")
        for name, where in (("a", MINE), ("b", other), ("c", MINE)):
            assert (await again(api, name, where)).status == 201
            clock.move(minutes=11)
        fourth = await again(api, "d")
        assert fourth.status == 403
        assert "eve has 3 uses of break-glass that nobody has reviewed" in message(fourth)
        assert "fathom override review NAME -n NAMESPACE --close" in message(fourth)
        assert (await again(api, "t", by=ROOT)).status == 201  # Of somebody else.
        one = next(each for each in (await api.get(REVIEWS)).obj["items"] if each["spec"]["author"] == "eve")
        assert (await close(api, f"{REVIEWS}/{one['metadata']['name']}", TOM)).status == 200
        assert (await again(api, "d")).status == 201

    tell(story, tmp_path, clock=clock)


def test_a_use_that_is_disputed_or_unreviewed_for_a_day_must_be_closed_before_the_next(
    tmp_path: Path,
) -> None:
    clock = MovedClock()

    async def story(api: Api) -> None:
        await prepare(api)
        await breaks(api)
        clock.move(minutes=11)
        (review,) = (await api.get(REVIEWS)).obj["items"]
        name = review["metadata"]["name"]
        assert (await close(api, f"{REVIEWS}/{name}", TOM, approved=False)).status == 200
        refused = await again(api, "second")
        assert (
            refused.status,
            f"the review mine/{name} of eve's use of break-glass is disputed" in message(refused),
        ) == (403, True)
        assert (await close(api, f"{REVIEWS}/{name}", TOM)).status == 200
        assert (await again(api, "second")).status == 201
        clock.move(minutes=10 + 24 * 60)
        overdue = await again(api, "third")
        assert (overdue.status, "is overdue: it was due 24 hours after its end" in message(overdue)) == (
            403,
            True,
        )

    tell(story, tmp_path, clock=clock)


def test_nobody_but_the_server_makes_a_review(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await prepare(api)
        spec = {"override": {"kind": "SchedulerOverride", "name": "o"}, "author": "tom", "role": "r"}
        forged = {"kind": "OverrideReview", "apiVersion": "fathom.dev/v1alpha1", "metadata": {"name": "x"}}
        for who in (ADMIN, ROOT, TOM):
            assert (await api.post(REVIEWS, {**forged, "spec": spec}, token=who)).status == 403

    tell(story, tmp_path)


def test_a_namespace_goes_with_its_open_reviews(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await prepare(api)
        await breaks(api)
        await api.patch(f"{MINE}/o", {"metadata": {"finalizers": None}})  # No controller runs here.
        await api.delete("/api/v1/namespaces/mine")

        async def gone() -> bool:
            return (await api.get("/api/v1/namespaces/mine")).status == 404

        await api.eventually(gone)

    tell(story, tmp_path)


def test_roles_and_accounts_made_under_it_carry_the_uid_of_the_override(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await prepare(api)
        accounts = "/api/v1/namespaces/mine/serviceaccounts"
        await grant(api, "eve", "edit", "mine")
        await api.post(accounts, {"metadata": {"name": "before"}}, token="eve")
        uid = (await breaks(api)).obj["metadata"]["uid"]
        made = await api.post(accounts, {"metadata": {"name": "under"}}, token="eve")
        assert marks(made) == {"fathom.dev/break-glass": uid}
        changed = await api.patch(f"{accounts}/before", {"metadata": {"labels": {"a": "b"}}}, token="eve")
        assert marks(changed) == {"fathom.dev/break-glass": uid}
        roles = f"{RBAC}/namespaces/mine/roles"
        rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
        role = await api.post(roles, {"metadata": {"name": "r", **MARKED}, "rules": [rule]}, token="eve")
        assert (role.status, marks(role)) == (201, {"fathom.dev/break-glass": uid}), role.obj
        await api.delete(f"{MINE}/o")
        unmarked = {"metadata": {"annotations": {"fathom.dev/break-glass": None}}}
        assert marks(await api.patch(f"{roles}/r", unmarked)) == {"fathom.dev/break-glass": uid}
        after = await api.post(accounts, {"metadata": {"name": "after"}}, token="eve")
        assert (after.status, marks(after)) == (201, {})

    tell(story, tmp_path)


def test_a_role_that_it_allows_is_not_stored_unmarked_when_it_ends_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. The request is allowed. 2. The override ends. 3. The role would be stored, and nobody would name it
    as what is left."""
    clock = MovedClock()

    async def story(api: Api) -> None:
        await prepare(api)
        await breaks(api)
        chain = api.core.chain
        admit = chain.admit

        def admit_later(*given: Any) -> Any:
            clock.move(minutes=10)
            return admit(*given)

        monkeypatch.setattr(chain, "admit", admit_later)
        where = f"{RBAC}/namespaces/mine/roles"
        late = await api.post(where, {"metadata": {"name": "late"}, "rules": []}, token="eve")
        assert (late.status, "has ended since" in message(late)) == (403, True), late.obj
        assert (await api.get(f"{where}/late")).status == 404

    tell(story, tmp_path, clock=clock)


def marks(answer: Answer) -> Obj:
    return dict(answer.obj["metadata"].get("annotations") or {})


def test_a_token_that_it_allows_ends_with_it(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await prepare(api)
        await api.post("/api/v1/namespaces/mine/serviceaccounts", {"metadata": {"name": "a"}})
        path = "/api/v1/namespaces/mine/serviceaccounts/a/token"
        asked: Obj = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1"}
        asked["spec"] = {"expirationSeconds": 86400}
        assert (await api.post(path, asked, token="eve")).status == 403
        made = (await breaks(api)).obj
        token = (await api.post(path, asked, token="eve")).obj
        assert 0 < token["spec"]["expirationSeconds"] <= 600
        assert token["status"]["expirationTimestamp"] <= made["status"]["expiresAt"]
        assert (await api.post(path, asked)).obj["spec"]["expirationSeconds"] == 86400  # Others' as before.

    tell(story, tmp_path)


def test_a_token_that_it_allows_is_void_when_the_override_is_ended_early(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await prepare(api)
        await api.post("/api/v1/namespaces/mine/serviceaccounts", {"metadata": {"name": "a"}})
        await grant(api, "system:serviceaccount:mine:a", "view", "mine")
        path = "/api/v1/namespaces/mine/serviceaccounts/a/token"
        asked: Obj = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {}}
        assert (await breaks(api)).status == 201
        under = (await api.post(path, asked, token="eve")).obj["status"]["token"]
        other = (await api.post(path, asked)).obj["status"]["token"]
        assert [(await api.get(MAPS, token=each)).status for each in (under, other)] == [200, 200]
        assert (await api.delete(f"{MINE}/o", token="eve")).status == 200
        assert [(await api.get(MAPS, token=each)).status for each in (under, other)] == [401, 200]

    tell(story, tmp_path)


def test_secrets_with_a_token_of_an_account_are_out_of_its_reach(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await prepare(api)
        assert (await breaks(api)).status == 201
        path = "/api/v1/namespaces/mine/secrets"
        notes = {"kubernetes.io/service-account.name": "default"}
        lasting = {"metadata": {"name": "t", "annotations": notes}}
        lasting["type"] = "kubernetes.io/service-account-token"  # type: ignore[assignment]
        refused = await api.post(path, lasting, token="eve")
        assert refused.status == 403
        assert "a token in a Secret would outlast break-glass: request one" in message(refused)
        assert (await api.post(path, {"metadata": {"name": "plain"}}, token="eve")).status == 201
        await grant(api, "eve", "edit", "mine")  # What her own roles allow stays allowed.
        assert (await api.post(path, lasting, token="eve")).status == 201

    tell(story, tmp_path)


def test_a_watch_that_it_allows_sends_nothing_after_the_end(tmp_path: Path) -> None:
    clock = MovedClock()

    async def story(api: Api) -> None:
        await prepare(api)
        assert (await breaks(api)).status == 201
        watching = await api.watch(MAPS, token="eve")
        await api.post(MAPS, config_map("before"))
        assert await watching.take(1) == [("ADDED", "before")]
        clock.move(minutes=10)
        await api.post(MAPS, config_map("after"))
        assert await watching.next() is None

    tell(story, tmp_path, clock=clock)


def test_a_watch_that_roles_allow_goes_on_after_the_end(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await prepare(api)
        assert (await breaks(api)).status == 201
        watching = await api.watch(MAPS, token="eve")
        await grant(api, "eve", "view", "mine")
        assert (await api.delete(f"{MINE}/o", token="eve")).status == 200
        await api.post(MAPS, config_map("after"))
        assert await watching.take(1) == [("ADDED", "after")]

    tell(story, tmp_path)
