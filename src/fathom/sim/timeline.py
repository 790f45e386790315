"""A failing run told as a story: what happened to the object concerned, when, and because of what.

00:04.012  scheduler     POST reservations/res-a        201, but the reply was lost
"""

from __future__ import annotations

from fathom.sim.engine import SECOND_NS
from fathom.sim.faults import AnyFault
from fathom.sim.scenario import Telling

LINES_MAX = 200


def timeline(telling: Telling) -> list[str]:
    """Writes in order, the faults between them, and the end. The newest lines, if there are many."""
    lines = [(int(fault.at_s * SECOND_NS), 0, _fault(fault)) for fault in telling.faults]
    for order, (when_ns, server, entry) in enumerate(telling.engine.audit):
        subject = "/".join(part for part in (entry.resource, entry.namespace, entry.name) if part)
        what = f"{entry.verb} {subject}{'/' + entry.subresource if entry.subresource else ''}"
        outcome = f"{entry.code}" + (f" at revision {entry.revision}" if entry.revision else "")
        lines.append((when_ns, order + 1, f"{entry.user:<14} {what}  ->  {outcome}  (through {server})"))
    lines.sort(key=lambda line: line[:2])
    return [f"{_clock(when_ns)}  {text}" for when_ns, _, text in lines[-LINES_MAX:]]


def _fault(fault: AnyFault) -> str:
    tag = str(type(fault).__struct_config__.tag)
    match = f" on {fault.match!r}" if fault.match else ""
    lasting = f" for {fault.for_s:g} s" if fault.for_s else ""
    return f"!! {tag} {fault.target}{match}{lasting}"


def _clock(when_ns: int) -> str:
    minutes, rest_ns = divmod(when_ns, 60 * SECOND_NS)
    return f"{minutes:02d}:{rest_ns / SECOND_NS:06.3f}"
