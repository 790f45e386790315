"""Page 1, Now: what is stuck, the nodes, the control plane, overrides, fights, and the workloads. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from fathom.cli.ask.explanation_text import summary_line
from fathom.cli.ask.top import seen as what
from fathom.cli.ask.top.helping import helping_command
from fathom.cli.ask.top.seen import Answer, ClusterSeen, LeaseSeen, NodeLoad, is_in
from fathom.cli.problem import Problem
from fathom.cli.steer.override_text import author_text, override_of
from fathom.cli.tables import natural
from fathom.kinds.component_signals import ComponentSignals
from fathom.kinds.override_summary import (
    ENDED,
    LAPSED,
    REFUSED,
    ack_counts,
    ack_text,
    changes_text,
    remaining,
    state_of,
)
from fathom.kinds.scheduler_override import SchedulerOverride, expiry_ns
from fathom.kinds.shape import read
from fathom.kinds.workload_progress import WorkloadProgress
from fathom.kube.columns.nodes import node_status
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Key, Obj, labels_of, lookup, metadata
from fathom.model.podresources import amounts
from fathom.model.times import SECOND_NS, human_duration, moment_ns, timestamp
from fathom.model.well_known import EPOCH_ANNOTATION, ZONE_LABEL

HELD = "fathom.dev/Held"  # The condition of a node whose reactions the brake holds back.
PASSING, INTENDED = "passing", "intended"
LEASE_S = 15.0  # Of a lease that does not say how long it lasts.
CLOCKS_S = 60.0  # Clocks of machines differ: one look at a lease says little about shorter times.


class StuckItem(msgspec.Struct, frozen=True, rename="camel"):
    """An object that is not as wanted, with the first line of `fathom why` about it."""

    resource: str  # 'pods', 'deployments.apps'
    namespace: str
    name: str
    sentence: str  # Cause, change, and who may make it.
    command: str = ""  # What to type; '' if nothing would help.
    severity: str = ""  # 'passing': it passes by itself; 'intended': people have done it on purpose.


class NodeItem(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    state: str  # 'Ready', 'NotReady', 'Ready,SchedulingDisabled', …
    cpu_percent: int | None  # CPU that pods request, of what is allocatable; null: not known.
    memory_percent: int | None  # The same of memory.
    pods: int | None  # Pods that hold room on it; null: not known.
    held: str = ""  # Why the brake holds reactions to this node back.

    @property
    def load_percent(self) -> int | None:
        known = [part for part in (self.cpu_percent, self.memory_percent) if part is not None]
        return max(known, default=None)


class ZoneItem(msgspec.Struct, frozen=True):
    name: str  # '' without a zone.
    nodes: tuple[NodeItem, ...]  # In the order of their names.


class LeaderItem(msgspec.Struct, frozen=True, rename="camel"):
    lease: str  # The name of the lease in fathom-system.
    holder: str  # Who holds it; '' for nobody.
    epoch: int  # How often the holder has changed.
    state: str  # 'leads', 'nobody leads', 'not renewed for 40s'


class BrakeState(msgspec.Struct, frozen=True):
    engaged: bool  # By hand.
    holds: bool  # Whether it holds reactions to nodes back now.
    zones: tuple[str, ...] = ()  # Zones that are held, and since when.
    nodes: tuple[str, ...] = ()  # Nodes that are held, since when and why.
    wrong: str = ""  # What is wrong with its limits.


class BreakerItem(msgspec.Struct, frozen=True):
    component: str  # The part of the control plane.
    process: str  # The process that it runs in.
    state: str  # 'closed', 'open', 'half-open'


class OverrideItem(msgspec.Struct, frozen=True, rename="camel"):
    namespace: str
    name: str
    target: str
    changes: str  # Names of its changes, with commas.
    owner: str  # Who asked for it.
    ends_in: str  # '30s'; '-' while its end is not known.
    acknowledged: str  # '2/3'
    waits_for: tuple[str, ...]  # Controllers that have not acknowledged it.
    declined: tuple[str, ...]  # Controllers that do not honour it.
    state: str


class FightItem(msgspec.Struct, frozen=True):
    form: str
    resource: str  # Of the object whose field is changed back and forth.
    namespace: str
    name: str
    text: str


class SignalItem(msgspec.Struct, frozen=True):
    """Trouble that a component reports about itself."""

    component: str  # The part of the control plane.
    signal: str  # The name of the problem.
    message: str


class WorkloadItem(msgspec.Struct, frozen=True, rename="camel"):
    kind: str
    namespace: str
    name: str
    desired: int  # How many replicas are wanted.
    ready: int  # How many are ready.
    serving: int  # How many get traffic.
    pending: str  # Reasons, the most frequent first.
    stuck_at: str  # What holds a replica beyond its deadline; '' if none is late.


class NowView(msgspec.Struct, frozen=True, rename="camel"):
    """The page as data: `fathom top -o json`."""

    time: str  # When the page was made.
    server: str  # The address of the API server.
    namespace: str  # '' is all.
    lost_since: str  # When the server stopped to answer; '' if it answers.
    lost_why: str  # Why it does not answer.
    stuck: tuple[StuckItem, ...]  # The worst first.
    zones: tuple[ZoneItem, ...]  # Of the nodes, by name.
    leaders: tuple[LeaderItem, ...]  # The leases of the control plane.
    brake: BrakeState | None  # On reactions to silent nodes; null: not known.
    breakers: tuple[BreakerItem, ...]  # Circuit breakers of the control plane's processes.
    signals: tuple[SignalItem, ...]  # What components report about themselves.
    overrides: tuple[OverrideItem, ...]  # Those that are active or wait for approval; the first to end first.
    fights: tuple[FightItem, ...]  # Over fields, and over objects.
    workloads: tuple[WorkloadItem, ...]  # Of the namespace.
    notes: Mapping[str, str]  # What could not be read, and why: 'nodes': 'not allowed to list nodes'.


def now_view(seen: ClusterSeen) -> NowView:
    return NowView(
        time=timestamp(seen.now_ns),
        server=seen.server,
        namespace=seen.namespace,
        lost_since=timestamp(seen.lost_since_ns) if seen.lost_since_ns else "",
        lost_why=seen.lost_why,
        stuck=tuple(map(stuck_item, seen.stuck)),
        zones=_zones(seen),
        leaders=tuple(_leaders(seen)),
        brake=_brake(seen.brake),
        breakers=tuple(BreakerItem(each.component, each.process, each.state) for each in seen.breakers),
        signals=tuple(_signals(seen)),
        overrides=tuple(_overrides(seen)),
        fights=tuple(_fights(seen)),
        workloads=tuple(_workloads(seen)),
        notes=dict(seen.notes),
    )


def stuck_item(explanation: Answer) -> StuckItem:
    subject = explanation.get("subject") or {}
    kind = str(explanation.get("kind") or "")
    return StuckItem(
        resource=str(subject.get("resource") or ""),
        namespace=str(subject.get("namespace") or ""),
        name=str(subject.get("name") or ""),
        sentence=summary_line(explanation),
        command=helping_command(explanation),
        severity=kind if kind in {PASSING, INTENDED} else "",
    )


# Nodes.


def _zones(seen: ClusterSeen) -> tuple[ZoneItem, ...]:
    zones: dict[str, list[NodeItem]] = {}
    # Without the pods of all namespaces, sums would be too small: better no figure.
    counts_pods = not {what.PODS, what.ALL_PODS} & seen.notes.keys()
    for node in sorted(seen.nodes.values(), key=lambda node: natural(str(metadata(node).get("name")))):
        name = str(metadata(node).get("name") or "")
        load = seen.loads.get(name, NodeLoad()) if counts_pods else None
        zone = str(labels_of(node).get(ZONE_LABEL) or "")
        zones.setdefault(zone, []).append(_node(name, node, load))
    return tuple(ZoneItem(zone, tuple(zones[zone])) for zone in sorted(zones, key=natural))


def _node(name: str, node: Obj, load: NodeLoad | None) -> NodeItem:
    held = find_condition(conditions_of(node), HELD) or {}
    room = amounts(lookup(node, "status", "allocatable"))
    cpu, memory = room.get("cpu"), room.get("memory")
    return NodeItem(
        name=name,
        state=node_status(node, 0),
        cpu_percent=_percent(load.cpu_milli, cpu.milli if cpu else 0) if load else None,
        memory_percent=_percent(load.memory_bytes, memory.value if memory else 0) if load else None,
        pods=load.pods if load else None,
        held=str(held.get("message") or "") if held.get("status") == "True" else "",
    )


def _percent(part: int, whole: int) -> int | None:
    return round(100 * part / whole) if whole else None


# The control plane.


def _leaders(seen: ClusterSeen) -> Iterator[LeaderItem]:
    now_ns = min(seen.now_ns, seen.lost_since_ns or seen.now_ns)  # What we cannot see has not expired.
    for key, lease in sorted(seen.leases.items()):
        spec = lease.obj.get("spec") or {}
        epoch = lookup(lease.obj, "metadata", "annotations", EPOCH_ANNOTATION)
        yield LeaderItem(
            lease=key.name,
            holder=str(spec.get("holderIdentity") or ""),
            epoch=int(epoch) if isinstance(epoch, str) and epoch.isdecimal() else 0,
            state=_lease_state(lease, now_ns),
        )


def _lease_state(lease: LeaseSeen, now_ns: int) -> str:
    spec = lease.obj.get("spec") or {}
    if not spec.get("holderIdentity"):
        return "nobody leads"
    lasts_s = float(spec.get("leaseDurationSeconds") or LEASE_S)
    unchanged_s = (now_ns - lease.changed_ns) / SECOND_NS
    renewed_ns = moment_ns(spec.get("renewTime"))
    age_s = (now_ns - renewed_ns) / SECOND_NS if renewed_ns else 0.0
    if unchanged_s >= lasts_s or age_s >= lasts_s + CLOCKS_S:
        return f"not renewed for {human_duration(max(age_s, unchanged_s))}"
    return "leads"


def _brake(config: Obj | None) -> BrakeState | None:
    data = (config or {}).get("data") or {}
    if not data:
        return None
    return BrakeState(
        engaged=data.get("engaged") == "true",
        holds=data.get("holds") == "true",
        zones=tuple(str(data.get("zones") or "").splitlines()),
        nodes=tuple(str(data.get("held") or "").splitlines()),
        wrong=str(data.get("wrong") or ""),
    )


def _signals(seen: ClusterSeen) -> Iterator[SignalItem]:
    for signals in _read_signals(seen):
        for each in signals.status.signals:
            yield SignalItem(signals.metadata.name, each.name, each.message)


def _fights(seen: ClusterSeen) -> Iterator[FightItem]:
    for signals in _read_signals(seen):
        for each in signals.status.fights:
            if not each.namespace or is_in(seen.namespace, Key(each.namespace, each.name)):
                yield FightItem(each.form, each.resource, each.namespace, each.name, each.text)


def _read_signals(seen: ClusterSeen) -> Iterator[ComponentSignals]:
    for _, obj in sorted(seen.signals.items()):
        try:
            yield read(ComponentSignals, obj)
        except ValueError:
            continue  # Of a newer server: no reason to show nothing at all.


# Overrides and workloads.


def _overrides(seen: ClusterSeen) -> Iterator[OverrideItem]:
    """Those that are in force, wait for approval, or have left something behind; the first to end first."""
    items = []
    for key, obj in seen.overrides.items():
        try:
            override = override_of(obj)
        except Problem:
            continue
        state = state_of(override, seen.now_ns)
        if is_in(seen.namespace, key) and state not in {ENDED, LAPSED, REFUSED}:
            items.append((expiry_ns(override) or 0, key, _override(override, seen.now_ns)))
    yield from (item for _, _, item in sorted(items, key=lambda each: each[:2]))


def _override(override: SchedulerOverride, now_ns: int) -> OverrideItem:
    acks, is_ending = ack_counts(override), bool(override.metadata.deletion_timestamp)
    return OverrideItem(
        namespace=override.metadata.namespace,
        name=override.metadata.name,
        target=override.spec.target,
        changes=changes_text(override),
        owner=author_text(override),
        ends_in=remaining(override, now_ns),
        acknowledged=ack_text(override),
        waits_for=() if is_ending else acks.missing,
        declined=acks.declined,
        state=state_of(override, now_ns),
    )


def _workloads(seen: ClusterSeen) -> Iterator[WorkloadItem]:
    for key in sorted(seen.progress, key=lambda key: (natural(key.namespace), natural(key.name))):
        if not is_in(seen.namespace, key):
            continue
        try:
            progress = read(WorkloadProgress, seen.progress[key])
        except ValueError:
            continue
        workload, current = progress.spec.workload, progress.status.current
        yield WorkloadItem(
            kind=workload.kind,
            namespace=key.namespace,
            name=workload.name,
            desired=current.desired,
            ready=current.ready,
            serving=current.serving,
            pending=", ".join(each.reason for each in current.pending_reasons),
            stuck_at=current.stuck_at,
        )
