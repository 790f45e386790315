"""A second person approves a run that a program asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.api.harness import ADMIN, JANE, Api
from tests.api.own.test_requested_through import proposed_run
from tests.cli.steering import Person, steered
from tests.security.people import grant


def test_a_proposed_run_is_approved_by_somebody_else_before_anybody_carries_it_out(tmp_path: Path) -> None:
    async def story(api: Api, people: Callable[[str], Person]) -> None:
        admin, jane = people(ADMIN), people(JANE)
        await grant(api, "jane", "admin", "default")
        run = await proposed_run(api)
        code, _, err = await admin.fathom("runbook", "resume", "r", "--yes")
        assert code == 2
        assert "waits for approval: somebody else must run `fathom runbook approve r -n default`" in err
        code, out, err = await admin.fathom("runbook", "approve", "r", "--yes")
        assert (code, out, "admin may not decide about a run that they asked for" in err) == (1, "", True)
        code, out, err = await jane.fathom("runbook", "approve", "r", "--yes")
        assert (code, out) == (0, "run default/r approved by jane\n"), err
        lines = err.splitlines()
        assert "asked by admin, through assistant probe 1.0 via fathom mcp" in lines
        assert f"spec hash {run['status']['approval']['specHash']}" in lines
        # The runbook's target does not exist, so its preconditions stop it: it has begun.
        code, out, err = await jane.fathom("runbook", "resume", "r", "--yes")
        assert (code, "Stopped" in out) == (1, True), err

    steered(story, tmp_path)


def test_a_run_of_a_person_needs_no_approval(tmp_path: Path) -> None:
    async def story(api: Api, people: Callable[[str], Person]) -> None:
        admin, jane = people(ADMIN), people(JANE)
        await grant(api, "jane", "admin", "default")
        book = ("freeze-autoscaling", "--set", "workload=nothing", "--set", "reason=test", "--name", "r")
        await admin.fathom("runbook", "run", *book, "--yes")
        code, out, err = await jane.fathom("runbook", "approve", "r", "--yes")
        assert (code, out) == (1, "")
        assert err == "fathom: error: run default/r needs no approval: nothing was changed\n"

    steered(story, tmp_path)
