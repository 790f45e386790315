"""An attached scheduler and overrides, beside an API server that knows nothing of fathom.

The server stores the admission policy and does not evaluate it (`fathom.dev/accept-unenforced`): what the
policy refuses is in test_override_policy.py."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.api.harness import ADMIN, Api
from tests.attach.foreign import NODES, PODS, Foreign, copied, foreign
from tests.attach.scheduled import (
    OVERRIDES,
    accepted,
    in_zone,
    override,
    placed,
    scheduling,
    verdicts,
    waiting,
)
from tests.cli.steering import Person

from fathom.attach.installed import objects_to_install
from fathom.attach.installing import install
from fathom.attach.kinds import MIRRORED
from fathom.client.once import api_of
from fathom.kinds import override_policy
from fathom.kinds.attached_override import attached_status
from fathom.kinds.override_policy import AUTHOR, Vouching
from fathom.kinds.override_status import Acknowledger
from fathom.model.times import moment_ns
from fathom.model.well_known import DECISION_ANNOTATION

pytestmark = pytest.mark.slow  # They wait for seconds.

POLICY = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/fathom-overrides"
EXPLANATIONS = "/apis/fathom.dev/v1alpha1/namespaces/{}/explanations"
RUNNING = {
    "phase": "Running",
    "conditions": [{"type": type_, "status": "True"} for type_ in ("Ready", "ContainersReady")],
}


@pytest.fixture(autouse=True)
def policies_hold_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(override_policy, "SETTLES_S", 0)


async def said(cluster: Foreign, name: str) -> dict[str, Any]:
    """The acknowledgements of an override, as soon as there are some."""

    async def acknowledged() -> bool:
        return bool(((await cluster.api.get(f"{OVERRIDES}/{name}")).obj.get("status") or {}).get("changes"))

    await cluster.api.eventually(acknowledged, timeout_s=30)
    status: dict[str, Any] = (await cluster.api.get(f"{OVERRIDES}/{name}")).obj["status"]
    return status


def states(status: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [
        (each["controller"], each["state"], each.get("reason", "")) for each in status["acknowledgements"]
    ]


def test_its_own_changes_are_honoured_and_those_of_others_are_declined(tmp_path: Path) -> None:
    async def main() -> None:
        async with scheduling(tmp_path) as cluster:
            made = override("avoid-b", avoidZones=["b"], pauseAutoscaler=True)
            assert (await cluster.api.post(OVERRIDES, made)).status == 201
            status = await said(cluster, "avoid-b")
            assert states(status) == [
                ("scheduler-fathom", "Honoring", ""),
                ("autoscaler", "Declined", "NoEnforcer"),
            ]
            assert (status["author"], status["active"]) == ("admin", False)
            await cluster.api.post(PODS, waiting("web"))
            assert await placed(cluster, "web") == "node-1"
            # The policy goes, and with it whoever vouches for the author.
            await cluster.api.delete(POLICY)
            declined = [
                ("scheduler-fathom", "Declined", "NoEnforcer"),
                ("autoscaler", "Declined", "NoEnforcer"),
            ]

            async def gone() -> bool:
                return states((await cluster.api.get(f"{OVERRIDES}/avoid-b")).obj["status"]) == declined

            await cluster.api.eventually(gone, timeout_s=30)

    asyncio.run(main())
    # The scheduler chose by itself, at once: the server did not have to refuse anything.
    assert verdicts(tmp_path, "web") == ["bind"]


def test_people_see_who_honours_what(tmp_path: Path) -> None:
    async def main() -> None:
        async with scheduling(tmp_path) as cluster:
            admin = Person(cluster.url, tmp_path, ADMIN)
            flags = ("--target=workload/web", "--scope=cluster", "--reason=repair", "--for=45m", "--yes")
            code, out, err = await admin.fathom(
                "override", "create", "avoid-b", *flags, "--avoid-zone=b", "--wait"
            )
            assert (code, out.splitlines()[-1]) == (
                0,
                "override default/avoid-b: Active, acknowledged by scheduler",
            ), err
            stored = (await cluster.api.get(f"{OVERRIDES}/avoid-b")).obj
            assert stored["metadata"]["annotations"] == {AUTHOR: "admin"}
            assert "finalizers" not in stored["metadata"]
            shown = (await admin.fathom("override", "show", "avoid-b"))[1]
            assert "asked by      admin, at" in shown
            assert "scheduler-fathom: Honoring (generation 1" in shown
            code, out, err = await admin.fathom(
                "override", "create", "pause", *flags, "--pause-rollout", "--wait"
            )
            assert code == 1, out
            shown = (await admin.fathom("override", "show", "pause"))[1]
            assert shown.splitlines()[0] == "override default/pause: Declined"
            assert "deployment-controller: Declined: NoEnforcer (generation 1" in shown
            assert "[Declined: NoEnforcer: no deployment-controller is attached]" in shown
            assert (await admin.fathom("override", "end", "pause", "--yes"))[0] == 0

    asyncio.run(main())


def test_a_copy_explains_by_overrides_only_what_a_scheduler_of_ours_decides(tmp_path: Path) -> None:
    """A cordon of the node on which both pods are."""

    async def main() -> None:
        async with foreign(tmp_path / "foreign") as cluster, api_of(cluster.address()) as api:
            await install(api, accepted(objects_to_install(observe_only=False)))
            await cluster.api.post(NODES, in_zone("node-1", "a", "4"))
            for name, notes in (("ours", {DECISION_ANNOTATION: "d-1"}), ("theirs", {})):
                made = waiting(name)
                made["metadata"]["annotations"] = notes
                await cluster.api.post(PODS, made)
                body = {"target": {"kind": "Node", "name": "node-1"}}
                await cluster.api.post(f"{PODS}/{name}/binding", body)
                await cluster.api.patch(f"{PODS}/{name}/status", {"status": RUNNING})
            path = OVERRIDES.replace("default", "fathom-system")
            made = override("closed", cordon=True)
            made["spec"]["target"] = "node/node-1"
            obj = (await cluster.api.post(path, made)).obj
            async with copied(cluster, tmp_path / "copy", kinds=MIRRORED) as copy:
                assert await again(copy, "ours") == "node-1"  # Nobody honours it yet.
                now_ns = moment_ns(obj["metadata"]["creationTimestamp"]) or 0
                status = attached_status(
                    obj, Vouching(0), Acknowledger("scheduler-fathom"), cache_revision=1, now_ns=now_ns,
                    now=obj["metadata"]["creationTimestamp"],
                )  # fmt: skip
                await cluster.api.patch(f"{path}/closed/status", {"status": status})

                async def told() -> bool:
                    return await again(copy, "ours") == ""

                await copy.eventually(told, timeout_s=20)
                assert await again(copy, "theirs") == "node-1"
                node = await copy.get(f"{EXPLANATIONS.format('fathom-system')}/node.node-1")
                assert "keeps pods that name fathom's scheduler away" in str(node.obj["status"])

    asyncio.run(main())


async def again(copy: Api, name: str) -> str:
    """The node that the rules give the pod now."""
    answer = await copy.get(f"{EXPLANATIONS.format('default')}/pod.{name}")
    return str((answer.obj["status"].get("now") or {}).get("node") or "")


def test_without_the_policy_no_override_is_honoured(tmp_path: Path) -> None:
    async def main() -> None:
        async with scheduling(tmp_path, policy=False) as cluster:
            for zone in "ab":
                await cluster.api.post(OVERRIDES, override(f"avoid-{zone}", avoidZones=[zone]))
            for zone in "ab":
                status = await said(cluster, f"avoid-{zone}")
                assert states(status) == [("scheduler-fathom", "Declined", "NoEnforcer")]
                assert (status.get("author"), status["active"]) == (None, False)
                assert status["changes"][0]["message"] == (
                    "nobody vouches for its author: there is no ValidatingAdmissionPolicy fathom-overrides"
                )

    asyncio.run(main())


def test_who_waits_for_a_declined_override_is_told_the_reason(tmp_path: Path) -> None:
    async def main() -> None:
        async with scheduling(tmp_path, policy=False) as cluster:
            flags = ("--target=workload/web", "--scope=cluster", "--reason=repair", "--for=45m", "--yes")
            code, _, err = await Person(cluster.url, tmp_path, ADMIN).fathom(
                "override", "create", "avoid-b", *flags, "--avoid-zone=b", "--wait"
            )
            assert code == 1
            assert "override default/avoid-b was declined by scheduler (NoEnforcer)" in err

    asyncio.run(main())
