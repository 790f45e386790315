"""`fathom decisions`: the same list from a data directory and from an API server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.api.harness import ADMIN, JANE, Api
from tests.ask.processes import AskedProcess
from tests.ask.test_decisions import asked, decision, outcome
from tests.cli.asking import listening
from tests.cli.steering import Person
from tests.security.people import grant

from fathom.api.http import Http
from fathom.model.cause import WakeCause
from fathom.model.decision import Considered, Rejection, SeenVersions, Subject

pytestmark = pytest.mark.live

CAUSE = WakeCause("event", "", "pods", "default", "web-1", 7, event="added")
WHOLE: dict[str, Any] = {
    "cause": CAUSE,
    "queued_ms": 12.5,
    "seen": {"Pod": SeenVersions(7, age_ms=3, applied=9)},
    "rejected": (Rejection("NodeResourcesFit", "capacity", 2),),
    "quotas": (Considered("risk", 4, decisive=True),),
    "scores": {"node-1": 90},
    "place": (1, 3),
    "observed_generation": 2,
}


def test_a_server_lists_what_the_data_directory_has(tmp_path: Path) -> None:
    async def story(api: Api, scheduler: AskedProcess) -> None:
        # Whole microseconds: the API has no finer times.
        time_ns = 1_700_000_000_000_001_000
        scheduler.journal.decided(decision("a-1", "web-1", time_ns=time_ns, **WHOLE))
        scheduler.journal.concluded(outcome("a-1", 42))
        of_node = Subject("nodes", "", "node-1")
        scheduler.journal.decided(decision("a-2", "node-1", time_ns=time_ns + 1000, subject=of_node, node=""))
        for name in ("default", "team"):
            about = Subject("pods", name, "db-1")
            number = "3" if name == "default" else "4"
            later = time_ns + 1000 * int(number)
            scheduler.journal.decided(decision(f"a-{number}", "db-1", subject=about, time_ns=later))
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        http = Http(api.parts.server, keep_alive_s=60)
        async with listening(http.connection) as url:
            try:
                await compare(Person(url, elsewhere, ADMIN), tmp_path)
                await grant(api, "jane", "view", "default")
                hers = await Person(url, elsewhere, JANE).fathom("decisions", "-o", "name")
                assert hers == (0, "a-1\na-3\n", "")
            finally:
                await http.stop(patience_s=1)

    asked(story, tmp_path)


async def compare(admin: Person, data: Path) -> None:
    asked_for = [(), ("pod/web-1",), ("pods",), ("node/node-1",), ("-n", "team"), ("--limit", "2")]
    for words in asked_for:
        code, from_server, err = await admin.fathom("decisions", *words, "-o", "json")
        assert (code, err) == (0, ""), words
        _, from_data, _ = await admin.fathom("decisions", *words, "-o", "json", "--data", str(data))
        theirs, ours = json.loads(from_server), json.loads(from_data)
        for each in ours:  # How reasons are stored, and times finer than the API's.
            each["outcomes"] = [{**one, "time_ns": one["time_ns"] // 1000 * 1000} for one in each["outcomes"]]
        assert theirs == ours, words
    nothing = await admin.fathom("decisions", "pod/nobody")
    assert nothing == (1, "there are no recorded decisions that you may see\n", "")
