"""`fathom override` on a real API server: what people see, what is stored, and what is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from tests.api.harness import ADMIN, JANE, Api
from tests.cli.steering import FLAGS, LESSON, OWN, Obj, Person, acknowledge, at_a_terminal, steered
from tests.security.people import grant

People = Callable[[str], Person]
NAME = "risk-api-eu-west-recovery"
PATH = f"{OWN}/scheduleroverrides/{NAME}"


def test_an_override_is_created_listed_shown_extended_and_ended(tmp_path: Path) -> None:
    async def story(api: Api, people: People) -> None:
        admin = people(ADMIN)
        code, out, err = await admin.fathom("override", "list")
        assert (code, out, err) == (0, "", "there are no overrides in namespace default\n")
        code, out, err = await admin.fathom("override", "create", NAME, *FLAGS, "--yes")
        assert (code, out) == (0, f"scheduleroverride.fathom.dev/{NAME} created\n"), err
        assert (await api.get(PATH)).obj["spec"] == LESSON
        code, out, _ = await admin.fathom("override", "list", "-A", "-o", "name")
        assert (code, out) == (0, f"scheduleroverride.fathom.dev/{NAME}\n")
        await acknowledge(api, NAME, "scheduler", "autoscaler", "quota-controller")
        head, row = (await admin.fathom("override", "list"))[1].splitlines()
        assert head.split() == ["NAME", "TARGET", "CHANGES", "OWNER", "EXPIRES", "ACK", "STATE"]
        assert (row.split()[3], row.split()[5:]) == ("admin", ["3/3", "Active"])
        shown = (await admin.fathom("override", "show", NAME))[1]
        assert "scheduler: Honoring (generation 1, cache at revision 7)" in shown
        before = (await api.get(PATH)).obj
        words = ("extend", NAME, "--for", "45m", "--reason", "the zone is still stale", "--yes")
        code, out, err = await admin.fathom("override", *words)
        after = (await api.get(PATH)).obj
        assert (code, out) == (
            0,
            f"scheduleroverride.fathom.dev/{NAME} extended: it ends at {after['status']['expiresAt']}\n",
        ), err
        assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1
        assert (after["spec"]["reason"], after["spec"]["expiresAfter"]) == (
            "the zone is still stale",
            "2700s",
        )
        assert (await admin.fathom("override", "end", NAME, "--yes"))[0] == 0

    steered(story, tmp_path)


def test_documents_are_the_stored_object_without_managed_fields(tmp_path: Path) -> None:
    async def story(api: Api, people: People) -> None:
        admin = people(ADMIN)
        created = await admin.fathom("override", "create", NAME, *FLAGS, "--yes", "-o", "json")
        stored = (await api.get(PATH)).obj
        stored["metadata"].pop("managedFields", None)
        assert json.loads(created[1]) == stored
        assert yaml.safe_load((await admin.fathom("override", "show", NAME, "-o", "yaml"))[1]) == stored
        listed = json.loads((await admin.fathom("override", "list", "-o", "json"))[1])
        assert (listed["kind"], listed["items"]) == ("List", [stored])

    steered(story, tmp_path)


def test_a_dry_run_on_the_server_says_what_it_would_be_and_writes_nothing(tmp_path: Path) -> None:
    async def story(api: Api, people: People) -> None:
        code, out, err = await people(ADMIN).fathom("override", "create", NAME, *FLAGS, "--dry-run=server")
        assert code == 0, err
        first, *lines = out.splitlines()
        assert first == f"scheduleroverride.fathom.dev/{NAME} created (server dry run)"
        assert lines[0].startswith("  context    c (http://127.0.0.1:")
        assert lines[1:3] == ["  namespace  default", f"  override   {NAME}"]
        assert (await api.get(PATH)).status == 404

    steered(story, tmp_path)


def test_wait_ends_when_every_affected_controller_has_acknowledged(tmp_path: Path) -> None:
    async def story(api: Api, people: People) -> None:
        words = ("override", "create", NAME, *FLAGS, "--yes", "--wait", "--timeout", "30s")
        waiting = asyncio.create_task(people(ADMIN).fathom(*words))
        await api.eventually(lambda: _exists(api, PATH), timeout_s=30)
        await acknowledge(api, NAME, "scheduler")
        await acknowledge(api, NAME, "scheduler", "autoscaler", "quota-controller")
        code, out, err = await waiting
        assert code == 0, err
        assert out.splitlines() == [
            f"scheduleroverride.fathom.dev/{NAME} created",
            f"override default/{NAME}: Active, acknowledged by scheduler, autoscaler, quota-controller",
        ]

    steered(story, tmp_path)


def test_wait_names_who_is_missing_when_the_time_is_over(tmp_path: Path) -> None:
    async def story(api: Api, people: People) -> None:
        words = ("override", "create", NAME, *FLAGS, "--yes", "--wait", "--timeout", "100ms")
        code, _, err = await people(ADMIN).fathom(*words)
        assert code == 1
        last = err.splitlines()[-1]
        assert last.startswith("fathom: error: after 0.1 s: waiting for scheduler, autoscaler")
        assert last.endswith(f"see `fathom override show {NAME} -n default`")

    steered(story, tmp_path)


def test_an_override_that_a_controller_declines_is_not_waited_for(tmp_path: Path) -> None:
    async def story(api: Api, people: People) -> None:
        admin = people(ADMIN)
        await admin.fathom("override", "create", NAME, *FLAGS, "--yes")
        declined = {"controller": "autoscaler", "state": "Declined", "reason": "NoEnforcer"}
        entry = {**declined, "observedGeneration": 2}
        await api.patch(f"{PATH}/status", {"status": {"acknowledgements": [entry]}})
        words = ("extend", NAME, "--for", "1h", "--reason", "more", "--yes", "--wait", "--timeout", "20s")
        code, _, err = await admin.fathom("override", *words)
        assert code == 1
        assert f"override default/{NAME} was declined by autoscaler (NoEnforcer)" in err

    steered(story, tmp_path)


@pytest.mark.parametrize(
    ("status", "complaint"),
    [
        ({"residue": [{"effect": "taint"}]}, "will not be in force: Residue"),
        (
            {"conditions": [{"type": "Degraded", "status": "True", "message": "autoscaler has stopped"}]},
            "is Degraded: autoscaler has stopped",
        ),
    ],
)
def test_waiting_ends_when_it_is_in_vain(tmp_path: Path, status: Obj, complaint: str) -> None:
    async def story(api: Api, people: People) -> None:
        words = ("override", "create", NAME, *FLAGS, "--yes", "--wait", "--timeout", "30s")
        waiting = asyncio.create_task(people(ADMIN).fathom(*words))
        await api.eventually(lambda: _exists(api, PATH), timeout_s=30)
        await acknowledge(api, NAME, "scheduler", "autoscaler", "quota-controller", **status)
        code, _, err = await waiting
        assert (code, err.splitlines()[-1]) == (1, f"fathom: error: override default/{NAME} {complaint}")

    steered(story, tmp_path)


def test_the_end_waits_for_the_proof_and_prints_what_is_left(tmp_path: Path) -> None:
    async def ended(api: Api, admin: Person, residue: list[dict[str, str]]) -> tuple[int, list[str]]:
        """The override controller's part is played here: the finalizer, the status, the end."""
        await admin.fathom("override", "create", NAME, *FLAGS, "--yes")
        await api.patch(PATH, {"metadata": {"finalizers": ["fathom.dev/override"]}})
        patience = "5s" if residue else "30s"
        waiting = asyncio.create_task(
            admin.fathom("override", "end", NAME, "--yes", "--wait", "--timeout", patience)
        )
        await api.eventually(lambda: _is_deleting(api), timeout_s=30)
        await api.patch(f"{PATH}/status", {"status": {"residue": residue}})
        if not residue:  # With residue it stays.
            await api.patch(PATH, {"metadata": {"finalizers": []}})
        code, out, _ = await waiting
        await api.patch(PATH, {"metadata": {"finalizers": []}})
        return code, out.splitlines()

    async def story(api: Api, people: People) -> None:
        admin = people(ADMIN)
        name = f"override default/{NAME}"
        first = f"scheduleroverride.fathom.dev/{NAME} is ending"
        assert await ended(api, admin, []) == (
            0,
            [first, f"{name} has ended, and it is proven that nothing is left of it"],
        )
        left = [{"effect": "taint", "object": "node/a", "message": "it is not ours"}]
        assert await ended(api, admin, left) == (
            1,
            [
                first,
                f"{name} has ended, and left 1 effect behind:",
                "  taint node/a: it is not ours",
                f"it stays until they are gone: fathom override show {NAME} -n default",
            ],
        )

    steered(story, tmp_path)


def test_the_end_needs_not_wait_for_what_stays(tmp_path: Path) -> None:
    async def story(api: Api, people: People) -> None:
        admin = people(ADMIN)
        await admin.fathom("override", "create", NAME, *FLAGS, "--yes")
        await api.patch(PATH, {"metadata": {"finalizers": ["fathom.dev/override"]}})
        words = ("override", "end", NAME, "--yes", "--wait", "--timeout", "30s")
        waiting = asyncio.create_task(admin.fathom(*words))
        await api.eventually(lambda: _is_deleting(api), timeout_s=30)
        generation = (await api.get(PATH)).obj["metadata"]["generation"]
        proof = {"type": "RepairComplete", "status": "False", "reason": "Residue"}
        status = {
            "residue": [{"effect": "account", "object": "Pod default/web-0"}],
            "conditions": [{**proof, "observedGeneration": generation}],
        }
        await api.patch(f"{PATH}/status", {"status": status})
        code, out, _ = await waiting
        assert (code, out.splitlines()[-2]) == (1, "  account Pod default/web-0")
        assert (await api.get(PATH)).status == 200

    steered(story, tmp_path)


def test_an_end_without_a_finalizer_is_not_called_proven(tmp_path: Path) -> None:
    async def story(api: Api, people: People) -> None:
        admin = people(ADMIN)
        await admin.fathom("override", "create", NAME, *FLAGS, "--yes")
        await api.patch(PATH, {"metadata": {"finalizers": []}})
        code, out, _ = await admin.fathom("override", "end", NAME, "--yes", "--wait")
        assert (code, out.splitlines()[-1]) == (
            1,
            f"override default/{NAME} has ended; what is left of it was not checked, because it had no"
            " finalizer",
        )

    steered(story, tmp_path)


def test_what_the_server_refuses_is_one_line_with_cause_and_advice_and_exit_code_1(tmp_path: Path) -> None:
    async def story(api: Api, people: People) -> None:
        admin, jane = people(ADMIN), people(JANE)

        async def refused(person: Person, *words: str) -> str:
            code, out, err = await person.fathom("override", *words)
            assert (code, out, err.count("\n"), err[:15]) == (1, "", 1, "fathom: error: "), err
            return err

        text = await refused(jane, "create", NAME, *FLAGS, "--yes")
        assert 'User "jane" cannot create resource' in text
        assert "see what you may do with `kubectl auth can-i --list -n default`" in text
        too_long = [flag if "--for" not in flag else "--for=1000h" for flag in FLAGS]
        assert "spec.expiresAfter: Invalid value" in await refused(admin, "create", NAME, *too_long, "--yes")
        assert f"there is no SchedulerOverride default/{NAME}; list them with `fathom override list -A`" in (
            await refused(admin, "show", NAME)
        )
        await admin.fathom("override", "create", NAME, *FLAGS, "--yes")
        assert "already exists; choose another name" in await refused(admin, "create", NAME, *FLAGS, "--yes")
        assert "needs no approval" in await refused(admin, "approve", NAME, "--yes")
        await grant(api, "jane", "view", "default")
        assert (await jane.fathom("override", "list"))[0] == 0
        assert "cannot delete" in await refused(jane, "end", NAME, "--yes")
        assert (await api.get(PATH)).status == 200

    steered(story, tmp_path)


@pytest.mark.parametrize("words", [("end", NAME), ("extend", NAME, "--for=1h", "--reason=more")])
def test_nothing_is_changed_without_a_terminal_to_ask_at(tmp_path: Path, words: tuple[str, ...]) -> None:
    async def story(api: Api, people: People) -> None:
        admin = people(ADMIN)
        await admin.fathom("override", "create", NAME, *FLAGS, "--yes")
        before = (await api.get(PATH)).obj
        code, out, err = await admin.fathom("override", *words)
        assert (code, out) == (2, "")
        assert "there is no terminal to ask at" in err
        assert "--yes" in err
        assert (await api.get(PATH)).obj == before

    steered(story, tmp_path)


@pytest.mark.parametrize(("typed", "code", "exists"), [("y", 0, True), ("n", 1, False), ("", 1, False)])
def test_a_person_at_a_terminal_is_asked_first(tmp_path: Path, typed: str, code: int, exists: bool) -> None:
    async def story(api: Api, people: People) -> None:
        words = ("override", "create", NAME, *FLAGS, "--kubeconfig", str(people(ADMIN).kubeconfig))
        ended, out, err = await asyncio.to_thread(at_a_terminal, words, f"{typed}\n")
        assert (ended, bool(out)) == (code, exists), err
        assert "  concerns   " in err
        assert err.count('there is no CapacityClass "recovery"') == 1
        assert "Create this override? [y/N] " in err
        assert ("fathom: error: nothing was changed" in err) is not exists
        assert await _exists(api, PATH) is exists

    steered(story, tmp_path)


def test_an_unreachable_server_leaves_the_outcome_open_and_says_so(tmp_path: Path) -> None:
    async def story(api: Api, people: People) -> None:
        nobody = Person("http://127.0.0.1:9", tmp_path, ADMIN)
        code, _, err = await nobody.fathom("override", "create", NAME, *FLAGS, "--yes")
        assert code == 2
        assert "was changed is unknown: check with `fathom override list`" in err

    steered(story, tmp_path)


async def _exists(api: Api, path: str) -> bool:
    return (await api.get(path)).status == 200


async def _is_deleting(api: Api) -> bool:
    return bool((await api.get(PATH)).obj["metadata"].get("deletionTimestamp"))
