"""`fathom runbook` asks before it does something, and says in which cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from tests.api.harness import ADMIN, Api
from tests.cli.steering import OWN, Person, Said, at_a_terminal, steered

BOOK = ("freeze-autoscaling", "--set", "workload=nothing", "--set", "reason=test", "--name", "r")
RUN = f"{OWN}/runbookruns/r"


async def typed(person: Person, answer: str, *words: str) -> Said:
    command = ("runbook", *words, "--kubeconfig", str(person.kubeconfig))
    return await asyncio.to_thread(at_a_terminal, command, f"{answer}\n")


def test_a_person_is_asked_before_a_run_begins_goes_on_and_is_undone(tmp_path: Path) -> None:
    async def story(api: Api, people: Callable[[str], Person]) -> None:
        admin = people(ADMIN)
        where = "context "
        code, out, _ = await typed(admin, "n", "run", *BOOK)
        assert (code, where in out, (await api.get(RUN)).status) == (1, True, 404)
        assert (await admin.fathom("runbook", "run", *BOOK, "--yes"))[0] == 1
        stopped = (await api.get(RUN)).obj
        assert stopped["status"]["phase"] == "Stopped"
        code, out, err = await typed(admin, "n", "resume", "r", "--take-over")
        assert (code, where in out, "Go on with it? [y/N]" in err) == (1, True, True)
        assert (await api.get(RUN)).obj == stopped
        assert (await admin.fathom("runbook", "resume", "r", "--take-over", "--yes"))[0] == 1
        code, out, err = await typed(admin, "y", "abort", "r")
        assert (code, where in out, "Undo it? [y/N]" in err) == (0, True, True)
        assert (await api.get(RUN)).obj["status"]["phase"] == "Aborted"

    steered(story, tmp_path)
