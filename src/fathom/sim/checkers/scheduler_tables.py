"""At rest the table that a scheduler keeps up to date by small changes equals one that is made anew from the
store: each node's facts, sums, ports and groups of pods, the room that is claimed, and each tenant's use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fathom.schedule.decide.node_table import CountedPod, NodeTable
from fathom.schedule.loop.process import SchedulerProcess
from fathom.sim.checkers.quiet_processes import may_act
from fathom.sim.checkers.scheduling import the_truth
from fathom.sim.world.invariants import Checker, Finding

if TYPE_CHECKING:
    from fathom.sim.world.world import World

Parts = dict[tuple[Any, ...], Any]  # ('pods', UID), ('ports', protocol, port, node), …: what is known of it.


class TablesEqualNewOnes(Checker):
    """At rest: each node's facts and sums, the pods and ports on it, the groups that rules count, the room
    that is claimed, and each tenant's use."""

    name = "a scheduler's table equals one made anew"
    patience_s = 120.0  # A watch that went dead without an error is noticed only by its silence.

    def settled(self, world: World) -> Iterable[str | Finding]:
        schedulers = [
            (name, process.state)
            for name, process in world.engine.processes.items()
            if process.alive and isinstance(process.state, SchedulerProcess)
        ]
        if not schedulers:
            return
        truth = the_truth(world).table
        for name, state in schedulers:
            table = state.scheduler.known.table
            for part, kept, made in differences(_parts(table, table), _parts(truth, table)):
                if part[0] == "claim" and not may_act(state):
                    continue  # What it chose in its last term: it looks at the pods again when it leads.
                about = " ".join(str(word) for word in part)
                yield Finding(f"{name} has for {about}: {kept}; the store says {made}", ())


def differences(kept: Parts, made: Parts) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
    for part in sorted(kept.keys() | made.keys(), key=str):
        if kept.get(part) != made.get(part):
            yield part, kept.get(part), made.get(part)


def _parts(table: NodeTable, asking: NodeTable) -> Parts:
    """By names: rows and columns may be in another order. `asking`: the table whose counters are compared."""
    return {
        **_nodes(table),
        **_pods(table),
        **_sums(table),
        **_groups(table),
        **_claims(table),
        **_counters(table, asking),
    }


def _nodes(table: NodeTable) -> Parts:
    parts: Parts = {("namespace", name): dict(labels) for name, labels in table.namespaces.items()}
    for name, row in table.row_of.items():
        exclusive = int(table.exclusive[row])
        parts["node", name] = (
            table.facts[row],
            table.zones[row],
            bool(table.alive[row]),
            bool(table.unschedulable[row]),
            table.taints[int(table.taint_sets[row])],
            table.reserved[exclusive - 1].name if exclusive else "",
            _amounts(table, table.allocatable[row]),
        )
    return parts


def _amounts(table: NodeTable, row: Any) -> dict[str, int]:
    return {name: int(row[column]) for name, column in sorted(table.resources.items()) if row[column]}


def _pods(table: NodeTable) -> Parts:
    parts: Parts = {("pod", uid): _counted(placed) for uid, placed in table.placed.items()}
    for name, row in table.row_of.items():
        parts["pods on", name] = sorted(table.pods_on[row])
    return parts


def _counted(placed: CountedPod) -> Any:
    view = placed.view
    return (placed.node, placed.capacity_class, view.deleting, view.finished, view.charged, view.shape)


def _sums(table: NodeTable) -> Parts:
    tally = table.tally
    parts: Parts = {("use of", tenant): places for tenant, places in tally.used.items()}
    for name, row in table.row_of.items():
        parts["sums of", name] = (_amounts(table, tally.requested[row]), tally.scored[row].tolist())
    for (row, capacity_class), amounts in tally.drawn.items():
        parts["drawn from", capacity_class, table.names[row]] = amounts
    for (protocol, port), rows in tally.ports.items():
        for row, addresses in rows.items():
            parts["port", protocol, port, table.names[row]] = addresses
    return parts


def _groups(table: NodeTable) -> Parts:
    tally = table.tally
    parts: Parts = {}
    for key, group in tally.groups.items():
        parts["group", *key] = _by_name(table, group.rows)
    for term_key, count in tally.terms.items():
        parts["term", *term_key] = _by_name(table, count.rows)
    return {part: rows for part, rows in parts.items() if rows}


def _by_name(table: NodeTable, rows: Mapping[int, int]) -> dict[str, int]:
    return {table.names[row]: count for row, count in sorted(rows.items())}


def _claims(table: NodeTable) -> Parts:
    parts: Parts = {}
    for holder, claim in table.claims.items():
        counts = holder in table.claims_on.get(table.row_of.get(claim.node, -1), {})
        parts["claim", holder] = (
            claim.node,
            claim.needs,
            claim.priority,
            claim.tenant,
            claim.capacity_class,
            counts,
        )
    return parts


def _counters(table: NodeTable, asking: NodeTable) -> Parts:
    wanted_counts = asking.tally.counted
    return {
        ("counter", wanted): {
            name: int(table.tally.counter(wanted).counts[row]) for name, row in sorted(table.row_of.items())
        }
        for wanted in wanted_counts
    }
