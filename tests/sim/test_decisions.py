"""Every write of ours names a decision that some journal holds, and the audit log tells who made it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar

import pytest
from tests.control.worlds import told, violation_of

import fathom
from fathom.client.api import Resource
from fathom.control.event_writer import EventChange, EventReport
from fathom.control.kit import Kit
from fathom.control.plan import Patch, Plan, target
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.watches import CONFIG_MAP, EVENT, Primary, Watch
from fathom.gateway.controller import ROUTES
from fathom.gateway.controller import begin as begin_gateway
from fathom.model import accounts
from fathom.model.audit import AuditEntry
from fathom.model.decision import Decision
from fathom.model.objects import Key, lookup, uid_of
from fathom.model.resources import DEPLOYMENTS, NODES, PODS, SERVICES
from fathom.model.user import User
from fathom.model.well_known import DECISION_ANNOTATION
from fathom.sim.checkers.decisions import EveryEventHasItsDecision, EveryWriteHasItsDecision
from fathom.sim.report.chronicle import Audited, Chronicle, Concluded, DecisionMade
from fathom.sim.scenarios.gateways import route
from fathom.sim.scenarios.real import deployment, run_real_cluster, until_ready
from fathom.sim.scenarios.scheduling import CLASSES, pod
from fathom.sim.scenarios.serving import service
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.invariants import Checker
from fathom.sim.world.world import World

MAPS = CONFIG_MAP.resource
PROPOSALS = Resource("fathom.dev", "v1alpha1", "repairproposals")
MARK = {"data": {"seen": "yes"}}


class Marking:
    """Marks the ConfigMap `a`; how, the subclasses say."""

    name = "marking"
    watches: ClassVar[tuple[Watch, ...]] = (Primary(CONFIG_MAP, conditions=False),)

    def __init__(self, kit: Kit) -> None:
        self.kit = kit

    async def reconcile(self, key: Key) -> ReconcileResult:
        obj = self.kit.snapshot().get("ConfigMap", key)
        if obj is not None and key.name == "a" and lookup(obj, "data", "seen") is None:
            await self.mark(key)
        return ReconcileResult.never()

    async def mark(self, key: Key) -> None:
        view = self.kit.snapshot()
        obj = view.get("ConfigMap", key) or {}
        await self.kit.apply(key, Plan(patches=(Patch(target("ConfigMap", obj), MARK),)), seen=view)


class Undecided(Marking):
    async def mark(self, key: Key) -> None:
        await self.kit.api.patch(MAPS, key.namespace, key.name, MARK)


class Invented(Marking):
    async def mark(self, key: Key) -> None:
        await self.kit.api.with_decision("d-1").patch(MAPS, key.namespace, key.name, MARK)


def marking(by: type[Marking], checker: Checker, *, events: int = 0) -> str:
    """What the checker finds, '' if nothing."""

    async def story(world: World) -> None:
        run_controllers(world, "manager", by, events=True)
        await world.apply(MAPS, {"metadata": {"name": "a"}})
        await world.until(
            lambda: lookup(world.get("configmaps", Key("default", "a")) or {}, "data", "seen") == "yes",
            within_s=20,
            what="it is marked",
        )
        await world.until(lambda: len(world.list("events")) == events, within_s=20, what="it is reported")

    found = violation_of(story, checkers=[checker])
    return "" if found is None else f"{found.invariant}: {found.message}"


@pytest.mark.parametrize(
    ("by", "found"),
    [
        (Marking, ""),
        (Undecided, "manager wrote configmaps/default/a without naming its decision"),
        (Invented, "manager wrote configmaps/default/a by decision d-1, which no journal has"),
    ],
)
def test_a_write_without_its_decision_is_found(by: type[Marking], found: str) -> None:
    assert marking(by, EveryWriteHasItsDecision()) == (
        f"every write has its decision: {found}" if found else ""
    )


def marked_event(change: EventChange) -> EventReport:
    return EventReport(CONFIG_MAP, change.subject, "Marked", "it is marked")


class Reporting(Marking):
    """Has an Event written about it by the process."""

    event_reports = staticmethod(marked_event)


class ReportsItself(Marking):
    """Writes the Event with the decision that the subclass says."""

    decision = ""

    async def mark(self, key: Key) -> None:
        await super().mark(key)
        event = {
            "apiVersion": "v1", "kind": "Event", "reason": "Marked",
            "metadata": {"name": "a.1", "annotations": {DECISION_ANNOTATION: self.decision}},
            "involvedObject": {"apiVersion": "v1", "kind": "ConfigMap", **key._asdict()},
        }  # fmt: skip
        await self.kit.api.with_decision(self.decision).create(EVENT.resource, key.namespace, event)


class ReportsAnInvention(ReportsItself):
    decision = "d-1"


@pytest.mark.parametrize(
    ("by", "found"),
    [
        (Reporting, ""),
        (ReportsItself, " without naming the decision that it reports"),
        (ReportsAnInvention, " by decision d-1, which no journal has"),
    ],
)
def test_an_event_without_its_decision_is_found(by: type[Marking], found: str) -> None:
    """One that the process writes is fine, and is there."""
    said = marking(by, EveryEventHasItsDecision(), events=1)
    wrote = "manager wrote the Event Marked (events/default/a.1)"
    assert said == (f"every Event has its decision: {wrote}{found}" if found else "")


def test_every_file_that_makes_events_names_the_decision() -> None:
    """The gateway and the agents on real nodes are not simulated: a new writer must be looked at too."""
    source = Path(fathom.__file__).parent
    makers = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if '"kind": "Event"' in path.read_text() and "sim" not in path.relative_to(source).parts
    }
    assert makers == {
        "agent/events.py",
        "control/event_writer.py",
        "explain/coupling/fight_texts.py",  # Written by HousekeepingWriter.report.
        "gateway/controller.py",
        "schedule/loop/pod_status_writer.py",
    }
    named = {
        path for path in makers if re.search(r"reporting\(|DECISION_ANNOTATION:", (source / path).read_text())
    }
    assert makers - named == {"explain/coupling/fight_texts.py"}
    assert "reporting(" in (source / "controllers" / "housekeeping" / "writer.py").read_text()


def audited(chronicle: Chronicle) -> list[AuditEntry]:
    return [event.entry for event in chronicle.events if isinstance(event, Audited)]


def written_by_us(chronicle: Chronicle) -> list[AuditEntry]:
    own = [
        entry
        for entry in audited(chronicle)
        if accounts.is_own(User(entry.user, entry.groups)) and entry.wrote
    ]
    return [entry for entry in own if entry.resource not in {"events", "leases.coordination.k8s.io"}]


def decisions_in(chronicle: Chronicle) -> dict[str, Decision]:
    return {
        event.decision.id: event.decision for event in chronicle.events if isinstance(event, DecisionMade)
    }


def is_heartbeat(entry: AuditEntry) -> bool:
    return entry.resource == "nodes" and entry.subresource == "status" and not entry.decision


def test_the_audit_log_of_a_cluster_names_decision_and_actor_of_each_write() -> None:
    async def story(world: World) -> None:
        run_real_cluster(world, nodes=("node-1", "node-2"), spare=False, events=True)
        world.process("gateway", begin_gateway, account=User(accounts.GATEWAY))
        await world.apply(CLASSES, {"metadata": {"name": "high"}, "value": 1000})
        await world.apply(SERVICES, service("web"))
        await world.apply(ROUTES, route("web", 7))
        await world.apply(DEPLOYMENTS, deployment("web", 4, cpu="3"))
        await until_ready(world, "web", 4)
        await world.apply(DEPLOYMENTS, deployment("web", 4, cpu="3", tag=2))
        await world.sleep(60)
        await until_ready(world, "web", 4)
        await world.apply(PODS, pod("urgent", cpu="6", high=True))
        await world.until(
            lambda: bool(lookup(world.get("pods", Key("default", "urgent")) or {}, "spec", "nodeName")),
            within_s=60,
            what="the urgent pod has a node",
        )
        await world.delete(NODES, "node-2")
        await world.sleep(30)
        await world.delete(DEPLOYMENTS, "web")
        await world.until(lambda: len(world.list("pods")) <= 1, within_s=120, what="its pods are gone")

    chronicle = Chronicle()
    told(story, checkers=[EveryWriteHasItsDecision(), EveryEventHasItsDecision()], chronicle=chronicle)
    entries, decisions = written_by_us(chronicle), decisions_in(chronicle)
    assert [entry for entry in entries if entry.decision not in decisions and not is_heartbeat(entry)] == []
    assert [entry for entry in entries if not entry.actor] == []
    assert {
        decision.controller for decision in decisions.values() if decision.cause.kind == "unstated"
    } == set()
    assert {entry.actor for entry in entries} >= {
        "scheduler-1",
        "controllers/deployments",
        "controllers/replicasets",
        "controllers/endpointslices",
        "gateway",
        "agent/node-1",
        "agent/node-2",
        "housekeeping/garbage-collector",
    }
    evictions = [
        entry
        for entry in entries
        if (entry.actor, entry.verb, entry.resource) == ("scheduler-1", "delete", "pods")
    ]
    assert {decisions[entry.decision].verdict for entry in evictions} == {"preempt"}
    reporters = {entry.actor for entry in audited(chronicle) if entry.resource == "events" and entry.decision}
    assert reporters >= {"scheduler-1", "controllers/events", "agent/node-1"}
    bindings = [entry for entry in entries if entry.subresource == "binding"]
    assert {decisions[entry.decision].verdict for entry in bindings} == {"bind"}
    assert [entry for entry in bindings if decisions[entry.decision].subject.uid != entry.uid] == []


@pytest.mark.slow
def test_what_repair_carries_out_is_recorded_as_a_plan() -> None:
    async def story(world: World) -> None:
        run_real_cluster(world, nodes=("node-1",), spare=False)
        held = {"name": "stuck", "finalizers": ["example.com/never"]}
        created = await world.apply(PODS, {**pod("stuck"), "metadata": held})
        await world.api.delete(PODS, "default", "stuck", uid=uid_of(created))
        await world.until(
            lambda: len(world.list(PROPOSALS.name)) == 1, within_s=900, what="repair proposes to end it"
        )
        [proposal] = world.list(PROPOSALS.name)
        key = Key("default", str(proposal["metadata"]["name"]))
        approval = {"metadata": {"uid": uid_of(proposal)}, "status": {"approved": True}}
        await world.api.patch(PROPOSALS, *key, approval, subresource="approval")
        await world.until(
            lambda: world.get("pods", Key("default", "stuck")) is None, within_s=60, what="it is gone"
        )

    chronicle = Chronicle()
    told(story, checkers=[EveryWriteHasItsDecision()], chronicle=chronicle)
    repairs = [
        decision
        for decision in decisions_in(chronicle).values()
        if decision.controller == "repair-proposals" and decision.verdict == "patch"
    ]
    [repair] = repairs
    assert repair.actions == ("patch Pod default/stuck",)
    assert "was approved: it should have been gone by" in repair.message
    [outcome] = [
        event.outcome
        for event in chronicle.events
        if isinstance(event, Concluded) and event.outcome.id == repair.id
    ]
    assert (outcome.result, outcome.object and outcome.object.name) == ("committed", "stuck")
