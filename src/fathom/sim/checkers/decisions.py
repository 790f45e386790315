"""Decisions: each write of a process of ours names one, and some journal of the run holds it."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

from fathom.agent.node import status_changed
from fathom.agent.process import Agent
from fathom.api.admission.addresses import CLAIMS
from fathom.api.admission.quota import RULES
from fathom.api.ledger.accounts import INTENT_BOOKS, NODE_BOOKS, TENANT_BOOKS
from fathom.api.ledger.recount import MARKER_RESOURCE
from fathom.control.process import Controllers
from fathom.gateway.controller import Gateway
from fathom.model.body import decode_json
from fathom.model.objects import Key, Obj, lookup
from fathom.model.resource_names import LEASES
from fathom.model.well_known import DECISION_ANNOTATION, DECISION_HEADER
from fathom.schedule.loop.process import SchedulerProcess
from fathom.sim.checkers.leaders import EVENTS, FENCES
from fathom.sim.world.invariants import Checker, Found, Seen
from fathom.sim.world.servers import SimServer
from fathom.sim.world.world import World

# Leases and Events decide nothing; the others are the store's accounts, not objects of the API.
ACCOUNTS = frozenset({MARKER_RESOURCE, NODE_BOOKS, TENANT_BOOKS, INTENT_BOOKS, CLAIMS, FENCES, RULES})
ASIDE = frozenset({LEASES, *EVENTS, *ACCOUNTS})
OURS = (Agent, Controllers, Gateway, SchedulerProcess, SimServer)


class EveryWriteHasItsDecision(Checker):
    name = "every write has its decision"

    def begin(self, world: World) -> None:
        self.judge_by(_is_ours_in(world), world.engine.journals.recorded)

    def judge_by(self, is_ours: Callable[[Seen], bool], recorded: Container[str]) -> None:
        """`recorded`: ids of decisions."""
        self._is_ours, self._recorded = is_ours, recorded

    def concerns(self, resource: str) -> bool:
        return resource not in ASIDE

    def commit(self, change: Seen) -> Found:
        if not self._is_ours(change) or is_heartbeat(change):
            return None
        decision = decision_of(change)
        if decision is None or (decision and decision in self._recorded):
            return None
        if decision:
            return f"{change.by} wrote {change.path} by decision {decision}, which no journal has"
        return f"{change.by} wrote {change.path} without naming its decision"


class EveryEventHasItsDecision(Checker):
    """Events are read long after a decision: each names the one that it reports, and a journal holds that."""

    name = "every Event has its decision"

    def begin(self, world: World) -> None:
        self.judge_by(_is_ours_in(world), world.engine.journals.recorded)

    def judge_by(self, is_ours: Callable[[Seen], bool], recorded: Container[str]) -> None:
        """`recorded`: ids of decisions."""
        self._is_ours, self._recorded = is_ours, recorded

    def concerns(self, resource: str) -> bool:
        return resource in EVENTS

    def commit(self, change: Seen) -> Found:
        # Events that have expired are deleted, by nobody's decision.
        if change.new is None or not self._is_ours(change):
            return None
        reported = str(lookup(change.new, "metadata", "annotations", DECISION_ANNOTATION) or "")
        about = f"{change.by} wrote the Event {change.new.get('reason')} ({change.path})"
        if not reported:
            return f"{about} without naming the decision that it reports"
        if reported not in self._recorded:
            return f"{about} by decision {reported}, which no journal has"
        if (named := dict(change.headers).get(DECISION_HEADER, "")) != reported:
            return f"{about} by decision {reported}, and its request names {named or 'none'}"
        return None


def _is_ours_in(world: World) -> Callable[[Seen], bool]:
    processes = world.engine.processes
    return lambda change: isinstance(processes[change.by].state, OURS)


def decision_of(change: Seen) -> str | None:
    """The decision that a write names; '' if it names none. None: it is not for this request to name one."""
    if change.ask is None or not change.ask.target.partition("?")[0].endswith("/bindingbatches"):
        return dict(change.headers).get(DECISION_HEADER, "")
    # Each pod of a batch has its own decision. One commit may serve several requests, and it writes what the
    # pods give back or take over, too.
    if change.resource != "pods" or change.key not in pods_in_batch(change.ask.body):
        return None
    return str(lookup(change.new or {}, "metadata", "annotations", DECISION_ANNOTATION) or "")


def pods_in_batch(body: Any) -> set[Key]:
    batch: Obj = decode_json(body) if isinstance(body, bytes) else body
    return {Key(str(item["namespace"]), str(item["name"])) for item in batch["items"]}


def is_heartbeat(change: Seen) -> bool:
    """Whether a node's status changed in nothing but the time of the heartbeat."""
    if change.resource != "nodes" or change.old is None or change.new is None:
        return False
    return change.old.get("spec") == change.new.get("spec") and not status_changed(
        change.old.get("status") or {}, change.new.get("status") or {}
    )
