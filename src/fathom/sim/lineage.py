"""What a good outcome rested on: the writes that led to it, by whom, when, and through which server."""

from __future__ import annotations

import msgspec

from fathom.sim.engine import SECOND_NS
from fathom.sim.scenario import Scenario, Telling


class Write(msgspec.Struct, frozen=True):
    process: str
    server: str
    number: int  # It is the process's n-th write.
    sent_s: float
    site: str  # 'POST /apis/…/reservations': what `Fault.match` finds it by.
    path: str  # '/reservations': its kind, for watches.


def writes_of(scenario: Scenario, seed: str) -> list[Write]:
    """Of the processes under test, not of the story or of housekeeping; newest first: the last write before
    the outcome is the likeliest to matter."""
    scripted = tuple(scenario.scripted()) if scenario.scripted else ()
    telling = Telling(scenario, seed, faults=scripted)
    sent = telling.engine.network.keep_writes()
    telling.run()
    tested = set(scenario.menu.processes)
    counts: dict[str, int] = {}
    found = []
    for when_ns, process, server, method, target in sent:
        counts[process] = counts.get(process, 0) + 1
        if process not in tested:
            continue
        path = target.partition("?")[0]
        kind = "/" + _plural(path)
        found.append(Write(process, server, counts[process], when_ns / SECOND_NS, f"{method} {path}", kind))
    return found[::-1]


def _plural(path: str) -> str:
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    return parts[0] if parts else ""
