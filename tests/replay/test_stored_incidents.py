"""Incidents that older versions exported: later versions must open, replay and continue them.

artifacts/before-tables.incident            no tables, no agents' journals, no timers on the tape
artifacts/with-tables-and-agent.incident    a killed scheduler and an agent, with tables and timers
artifacts/with-reported-decisions.incident  Events and conditions name their decisions
artifacts/with-silent-lists.incident        a first list that does not end is given up after some seconds
artifacts/with-promised-bookmarks.incident  lists end with how often bookmarks come
artifacts/with-a-watched-clock.incident     controllers notice that the wall clock is set
artifacts/with-overrides-seen.incident      writes that a pause may forbid name the overrides they follow
artifacts/with-node-uids.incident           bindings name the UID of the node

`store_incident.py` records one of the present code.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.replay.test_incident import command

from fathom.record.incident_file import open_incident
from fathom.sim.continuation import go_on
from fathom.sim.fork_state import ClusterState, newest_time_ns

FOLDER = Path(__file__).parent / "artifacts"
STORED = sorted(FOLDER.glob("*.incident"))
# Files from before a change after which a recorded process decides or sends something else, on purpose. They
# must still be read, and the first difference named.
DECIDED_OTHERWISE = frozenset(
    {
        "before-tables",
        "with-tables-and-agent",
        "with-reported-decisions",
        "with-silent-lists",
        "with-promised-bookmarks",
        "with-a-watched-clock",
        "with-overrides-seen",
    }
)


def test_there_are_stored_incidents() -> None:
    assert len(STORED) >= 2


@pytest.mark.parametrize("file", STORED, ids=lambda file: file.stem)
def test_a_stored_incident_still_replays(file: Path) -> None:
    done = command("fathom.cli", "replay", str(file), "--json")
    assert done.stderr == ""
    tapes = json.loads(done.stdout)["tapes"]
    assert len(tapes) >= 2
    if file.stem in DECIDED_OTHERWISE:
        assert done.returncode == 1
        divergences = [tape["result"]["first_divergence"] for tape in tapes if not tape["result"]["matched"]]
        assert all(
            divergence["decision"] or divergence["live"] or divergence["replayed"]
            for divergence in divergences
        )
        return
    assert all(tape["result"]["inputs"] > 50 for tape in tapes)
    advice = f"if that is on purpose, add {file.stem} to DECIDED_OTHERWISE, and store one of the present code"
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{advice}"


@pytest.mark.parametrize("file", STORED, ids=lambda file: file.stem)
def test_a_stored_incident_still_has_its_decisions_and_its_store(file: Path) -> None:
    with open_incident(file) as opened:
        for tape in opened.incident.tapes:
            assert opened.decisions(tape.process).decisions
        contents = opened.contents()
    assert contents is not None
    state = ClusterState(contents=contents, time_ns=newest_time_ns(contents))
    continuation = go_on(state, seconds=60.0, seed="1")
    assert continuation.after.pods > 20
