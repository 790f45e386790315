"""A second person approves an override, or refuses it; and reviews a use of break-glass."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.api.harness import ADMIN, JANE, Api
from tests.cli.steering import OWN, Obj, Person, steered
from tests.security.people import RBAC, grant_rule

from fathom.cli.ask.explanations import ApiServer
from fathom.cli.problem import Problem
from fathom.cli.steer.override_actions import OVERRIDES
from fathom.cli.steer.override_review import ends_text
from fathom.cli.steer.own_objects import OwnObjects
from fathom.model.times import moment_ns

People = Callable[[str], Person]
SHIFT = (
    "--target=workload/web", "--scope=cluster", "--reason=eu is down", "--for=30m", "--traffic-weight=us=100",
)  # fmt: skip
PATH = f"{OWN}/scheduleroverrides/shift"
NAME = "scheduleroverride.fathom.dev/shift"


async def approvals_on(api: Api) -> None:
    path = "/apis/fathom.dev/v1alpha1/namespaces/fathom-system/steeringlimits/default"
    assert (await api.patch(path, {"spec": {"approvals": "on"}})).status == 200
    deployment = {"metadata": {"name": "web"}, "spec": _workload()}
    assert (await api.post("/apis/apps/v1/namespaces/default/deployments", deployment)).status == 201


async def jane_decides(api: Api, *resources: str) -> None:
    rule = {"apiGroups": ["fathom.dev"], "resources": list(resources), "verbs": ["get", "list", "patch"]}
    await grant_rule(api, "jane", "deciders", rule)


def test_a_second_person_approves_what_is_shown(tmp_path: Path) -> None:
    async def story(api: Api, people: People) -> None:
        admin, jane = people(ADMIN), people(JANE)
        await approvals_on(api)
        await jane_decides(api, "scheduleroverrides", "scheduleroverrides/approval")
        code, out, err = await admin.fathom("override", "create", "shift", *SHIFT, "--yes")
        assert (code, out) == (0, f"{NAME} created\n"), err
        assert err.splitlines()[-1] == (
            "it is not in force yet: somebody else must approve it with"
            " `fathom override approve shift -n default`"
        )
        row = (await admin.fathom("override", "list"))[1].splitlines()[1]
        assert row.endswith("Waiting for approval")
        code, out, err = await admin.fathom("override", "approve", "shift", "--yes")
        assert (code, out) == (1, "")
        assert "somebody else must" in err
        code, out, err = await jane.fathom("override", "approve", "shift")
        assert code == 2
        code, out, err = await jane.fathom("override", "approve", "shift", "--yes")
        assert (code, out) == (0, f"{NAME} approved by jane\n"), err
        approval = (await api.get(PATH)).obj["status"]["approval"]
        assert f"  spec hash  {approval['specHash']}" in err.splitlines()
        assert (approval["approved"], approval["approver"]) == (True, "jane")
        assert "approved by jane" in (await admin.fathom("override", "show", "shift"))[1]

    steered(story, tmp_path)


def test_an_override_is_refused_and_an_edited_one_waits_again(tmp_path: Path) -> None:
    async def story(api: Api, people: People) -> None:
        admin, jane = people(ADMIN), people(JANE)
        await approvals_on(api)
        await jane_decides(api, "scheduleroverrides", "scheduleroverrides/approval")
        await admin.fathom("override", "create", "shift", *SHIFT, "--yes")
        code, out, _ = await jane.fathom("override", "approve", "shift", "--refuse", "--yes")
        assert (code, out) == (0, f"{NAME} refused by jane\n")
        assert (await admin.fathom("override", "list"))[1].splitlines()[1].endswith("Refused")
        edited = await api.patch(PATH, {"spec": {"changes": {"trafficWeights": {"us": 50, "eu": 50}}}})
        assert edited.status == 200, edited.obj
        assert (await admin.fathom("override", "list"))[1].splitlines()[1].endswith("Waiting for approval")

    steered(story, tmp_path)


def test_a_decision_is_about_the_spec_that_was_read_and_no_other(tmp_path: Path) -> None:
    async def story(api: Api, people: People) -> None:
        admin, jane = people(ADMIN), people(JANE)
        await approvals_on(api)
        await jane_decides(api, "scheduleroverrides", "scheduleroverrides/approval")
        await admin.fathom("override", "create", "shift", *SHIFT, "--yes")
        objects = OwnObjects(ApiServer(jane.kubeconfig), OVERRIDES)

        async def decide(seen: Obj, approved: bool) -> Obj:
            decision = {"approved": approved, "specHash": seen["status"]["approval"]["specHash"]}
            patch = {"status": {"approval": decision}}
            return await asyncio.to_thread(
                objects.patch_same_spec, "default", seen, patch, subresource="approval"
            )

        read = (await api.get(PATH)).obj
        await api.patch(f"{PATH}/status", {"status": {"observedGeneration": 1}})
        decided = await decide(read, approved=False)
        assert decided["status"]["approval"]["approved"] is False
        read = (await api.get(PATH)).obj
        await api.patch(PATH, {"spec": {"changes": {"trafficWeights": {"us": 50, "eu": 50}}}})
        with pytest.raises(Problem, match="default/shift was changed meanwhile: look at it again"):
            await decide(read, approved=True)
        approval = (await api.get(PATH)).obj["status"]["approval"]
        assert "approved" not in approval

    steered(story, tmp_path)


def test_an_override_without_risk_needs_no_approval(tmp_path: Path) -> None:
    async def story(api: Api, people: People) -> None:
        admin = people(ADMIN)
        await approvals_on(api)
        words = ("--target=workload/web", "--scope=cluster", "--reason=r", "--for=30m", "--pause-rollout")
        await admin.fathom("override", "create", "pause", *words, "--yes")
        code, _, err = await people(ADMIN).fathom("override", "approve", "pause", "--yes")
        assert (code, err) == (
            1,
            "fathom: error: override default/pause needs no approval: nothing was changed\n",
        )

    steered(story, tmp_path)


@pytest.mark.parametrize(
    ("time", "shown"), [("12:09:00", "in 9m"), ("11:56:00", "4m ago"), ("12:00:00", "0s ago"), ("", "-")]
)
def test_the_end_of_a_use_is_told_from_now_on(time: str, shown: str) -> None:
    now_ns = moment_ns("2026-11-17T12:00:00Z") or 0
    assert ends_text(time and f"2026-11-17T{time}Z", now_ns) == shown


def test_a_use_of_break_glass_is_reviewed_by_somebody_else(tmp_path: Path) -> None:
    async def story(api: Api, people: People) -> None:
        admin, jane = people(ADMIN), people(JANE)
        await approvals_on(api)
        await jane_decides(api, "overridereviews", "overridereviews/approval")
        meta = {"name": "emergency", "annotations": {"fathom.dev/break-glass": "true"}}
        assert (await api.post(f"{RBAC}/clusterroles", {"metadata": meta, "rules": []})).status == 201
        words = ("--target=workload/web", "--scope=cluster", "--reason=deployer down", "--for=10m")
        code, _, err = await admin.fathom(
            "override", "create", "glass", *words, "--break-glass-role=emergency", "--yes"
        )
        assert code == 0, err
        head, row = (await jane.fathom("override", "review"))[1].splitlines()
        assert head.split() == [
            "NAMESPACE", "NAME", "OVERRIDE", "AUTHOR", "ROLE", "ENDS", "PHASE", "REVIEWER",
        ]  # fmt: skip
        name = row.split()[1]
        assert row.split()[2:5] == ["glass", "admin", "emergency"]
        assert re.search(r"   in (10m|9m\d*s?)   ", row), row
        head, row = (await jane.fathom("override", "review", "-o", "wide"))[1].splitlines()
        assert (head.split()[-2:], row.endswith("   deployer down")) == (["REASON", "FINDINGS"], True)
        assert "  why       deployer down" in (await jane.fathom("override", "review", name))[1].splitlines()
        code, _, err = await jane.fathom("override", "review", name, "--close", "--yes")
        assert code == 1
        assert "the override is still active: end it" in err
        await admin.fathom("override", "end", "glass", "--yes")
        code, _, err = await admin.fathom("override", "review", name, "--close", "--yes")
        assert (code, "somebody else must" in err) == (1, True)
        closed = await jane.fathom("override", "review", name, "--close", "--findings=fine", "--yes")
        assert closed[:2] == (0, f"overridereview.fathom.dev/{name} closed by jane\n"), closed
        assert (await jane.fathom("override", "review"))[1:] == ("", "there are no open reviews\n")
        assert "Closed" in (await jane.fathom("override", "review", "--all"))[1]

    steered(story, tmp_path)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("r", "--close", "--dispute"), "closed or disputed, not both"),
        (("--close",), "name the review"),
        (("r", "--dispute"), "--dispute needs --findings"),
        (("r", "--findings", "x"), "say with --close or --dispute"),
    ],
)
def test_a_review_that_says_too_little_is_a_usage_error(
    tmp_path: Path, words: tuple[str, ...], complaint: str
) -> None:
    async def story(api: Api, people: People) -> None:
        code, _, err = await people(ADMIN).fathom("override", "review", *words)
        assert (code, complaint in err) == (2, True), err

    steered(story, tmp_path)


def _workload() -> Obj:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "web:1"}]},
    }
    return {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
