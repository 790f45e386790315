"""The TrafficRoute that carries an override's weights, and its restoration at the end. Pure.

    the status names the route ──> the route is written, with its earlier weights on it ──> restored

A person's weights are never overwritten: a route that no longer has what the override wrote is left alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fathom.control.plan import Create, Delete, Patch, target
from fathom.controllers.overrides.facts import OverrideFacts
from fathom.kinds.override_status import MADE_BY, is_marked, reference
from fathom.kinds.scheduler_override import ChangeState, Effect, Residue, SchedulerOverride, named
from fathom.kinds.shape import API_VERSION
from fathom.model.objects import Key, Obj, is_deleting, key_of, labels_of, lookup, metadata
from fathom.model.well_known import POOL_LABEL, REGION_LABEL, ZONE_LABEL

ROUTE = "TrafficRoute"
# On a route: the weights that the override wrote, and those from before; 'null': it created the route.
WRITTEN, BEFORE = "fathom.dev/override-routes", "fathom.dev/override-earlier-routes"
_PLACES = (("region", REGION_LABEL), ("zone", ZONE_LABEL), ("pool", POOL_LABEL))
_CHANGE = "trafficWeights"
NAME_MAX = 253


class RouteActions(msgspec.Struct, frozen=True):
    creates: tuple[Create, ...] = ()
    patches: tuple[Patch, ...] = ()
    deletes: tuple[Delete, ...] = ()


NO_ACTIONS = RouteActions()


def wanted_routes(override: SchedulerOverride, nodes: Sequence[Obj]) -> list[Obj]:
    """Each name is that of a region, else of a zone, else of a pool."""
    return [
        {_place(name, nodes): name, "weight": weight}
        for name, weight in sorted(override.spec.changes.traffic_weights.items())
    ]


def _place(name: str, nodes: Sequence[Obj]) -> str:
    known = (place for place, label in _PLACES if any(labels_of(node).get(label) == name for node in nodes))
    return next(known, "region")


def effects_of(override: SchedulerOverride, facts: OverrideFacts) -> tuple[Effect, ...]:
    """The routes that are written, each before it is. There may be two: 1. The cache has no route yet, so one
    is created. 2. An older route arrives, which is in force instead, and is written too."""
    recorded = _recorded(override)
    if not _reaches(override, facts):
        return recorded
    route = _route(override, facts)
    key = key_of(route) if route is not None else _created_key(override)
    effect = Effect("route", f"{ROUTE} {'/'.join(key)}")
    return recorded if effect in recorded else (*recorded, effect)


def plan_weights(override: SchedulerOverride, facts: OverrideFacts) -> RouteActions:
    """Only once the status names the route: so the end knows it, whatever becomes of the marks on it."""
    if not _reaches(override, facts) or effects_of(override, facts) != _recorded(override):
        return NO_ACTIONS
    route, wanted = _route(override, facts), wanted_routes(override, facts.nodes)
    if route is None:
        return RouteActions(creates=(_created(override, facts, wanted),))
    if _trouble(route, override) or (_is_ours(route, override) and _routes(route) == wanted):
        return NO_ACTIONS
    if not _is_ours(route, override) and _routes(route) == wanted:
        return NO_ACTIONS  # It is so already; marking it would make these weights the earlier ones.
    before = _notes(route).get(BEFORE) if _is_ours(route, override) else _text(_routes(route))
    notes = {MADE_BY: reference(override), WRITTEN: _text(wanted), BEFORE: before}
    change = {"metadata": {"annotations": notes}, "spec": {"routes": wanted}}
    return RouteActions(patches=(Patch(target(ROUTE, route), change, destructive=True),))


def weights_state(override: SchedulerOverride, facts: OverrideFacts) -> ChangeState:
    if not _services(override, facts):
        return ChangeState(_CHANGE, "NoMatch", "NoService", "no Service selects the target's pods")
    if not _reaches(override, facts):
        return out_of_scope(_CHANGE, override)
    route = _route(override, facts)
    trouble = _trouble(route, override) if route is not None else ""
    if trouble:
        return ChangeState(_CHANGE, "Declined", "RouteKept", trouble)
    return ChangeState(_CHANGE, "InForce", "RouteWritten")


def out_of_scope(change: str, override: SchedulerOverride) -> ChangeState:
    where = f"no pod of {override.spec.target} is in {override.spec.scope}"
    return ChangeState(change, "NoMatch", "NotInScope", where)


def _reaches(override: SchedulerOverride, facts: OverrideFacts) -> bool:
    """Whether there is a route to write: not where the target is out of the scope. One that is written keeps
    its weights until the end, wherever the pods go meanwhile."""
    written = any(_is_ours(route, override) for route in facts.routes)
    return bool(_services(override, facts)) and (facts.in_scope or written)


def plan_restore(override: SchedulerOverride, facts: OverrideFacts) -> RouteActions:
    """Undo what the override wrote, unless a person has written the route since, or the status does not name
    the route (its marks are not ours then): then only the marks go."""
    patches: list[Patch] = []
    deletes: list[Delete] = []
    named_routes = {each.object for each in _recorded(override)}
    for route in facts.routes:
        if not _is_ours(route, override):
            continue
        written = _name(route) in named_routes
        untouched = written and _text(_routes(route)) == _notes(route).get(WRITTEN)
        if untouched and _notes(route).get(BEFORE) == "null":
            deletes += [] if is_deleting(route) else [Delete(target(ROUTE, route), as_read=True)]
            continue
        before = _decoded(_notes(route).get(BEFORE)) if untouched else None
        unmarked: Obj = {"metadata": {"annotations": dict.fromkeys((MADE_BY, WRITTEN, BEFORE))}}
        spec = {} if before is None else {"spec": {"routes": before}}
        patches.append(Patch(target(ROUTE, route), {**unmarked, **spec}, destructive=True))
    return RouteActions((), tuple(patches), tuple(deletes))


def _decoded(text: object) -> list[Obj] | None:
    """Earlier weights; None if the annotation was damaged."""
    try:
        return msgspec.json.decode(str(text), type=list[Obj])
    except msgspec.DecodeError:
        return None


def route_residue(override: SchedulerOverride, facts: OverrideFacts) -> tuple[Residue, ...]:
    """Routes that the override marked, or that the status names and that still have its weights."""
    named_routes = {each.object for each in _recorded(override)}
    wanted = wanted_routes(override, facts.nodes)
    residue = []
    for route in facts.routes:
        name = _name(route)
        if _is_ours(route, override):
            residue.append(Residue("route", name, "it has the weights of the override"))
        elif name in named_routes and _routes(route) == wanted:
            residue.append(Residue("route", name, "its mark is gone, and it has the weights of the override"))
    return tuple(residue)


def _name(route: Obj) -> str:
    return f"{ROUTE} {'/'.join(key_of(route))}"


def _recorded(override: SchedulerOverride) -> tuple[Effect, ...]:
    return tuple(each for each in override.status.effects if each.effect == "route")


def _trouble(route: Obj, override: SchedulerOverride) -> str:
    """Why the route is not written; '': it may be."""
    notes = _notes(route)
    if not notes.get(MADE_BY):
        return ""
    if not _is_ours(route, override):
        return f"TrafficRoute {key_of(route).name} is held by override {notes[MADE_BY]}"
    if _text(_routes(route)) != notes.get(WRITTEN):
        return f"TrafficRoute {key_of(route).name} was written by somebody else since"
    return ""


def _is_ours(route: Obj, override: SchedulerOverride) -> bool:
    return is_marked(_notes(route).get(MADE_BY), override.metadata.uid)


def _route(override: SchedulerOverride, facts: OverrideFacts) -> Obj | None:
    """The route in force for the target's Services: the oldest one, as the gateway chooses it."""
    services = _services(override, facts)
    concerned = [route for route in facts.routes if _routed(route) in services]
    return min(
        concerned,
        key=lambda route: (str(metadata(route).get("creationTimestamp") or ""), key_of(route)),
        default=None,
    )


def _routed(route: Obj) -> str:
    spec = route.get("spec") or {}
    workload = str(spec.get("workload") or "").rpartition("/")[2]
    return str(spec.get("service") or workload or key_of(route).name)


def _services(override: SchedulerOverride, facts: OverrideFacts) -> list[str]:
    """Services that select the pods of the target; the one that is named like it first."""
    place = named(override.spec.target)
    name = place.name if place is not None else ""
    labels = [lookup(each, "spec", "template", "metadata", "labels") or {} for each in facts.workloads]
    selecting = [
        key_of(service).name
        for service in facts.services
        if any(_selects(lookup(service, "spec", "selector"), each) for each in labels)
    ]
    return sorted(selecting, key=lambda service: (service != name, service))


def _selects(selector: object, labels: Obj) -> bool:
    if not isinstance(selector, dict) or not selector:
        return False
    return all(labels.get(label) == value for label, value in selector.items())


def _created_key(override: SchedulerOverride) -> Key:
    return Key(override.metadata.namespace, f"override-{override.metadata.name}"[:NAME_MAX])


def _created(override: SchedulerOverride, facts: OverrideFacts, wanted: list[Obj]) -> Create:
    key = _created_key(override)
    notes = {MADE_BY: reference(override), WRITTEN: _text(wanted), BEFORE: "null"}
    meta = {"namespace": key.namespace, "name": key.name, "annotations": notes}
    spec = {"service": _services(override, facts)[0], "routes": wanted}
    return Create(ROUTE, {"apiVersion": API_VERSION, "kind": ROUTE, "metadata": meta, "spec": spec})


def _routes(route: Obj) -> list[Obj]:
    return lookup(route, "spec", "routes") or []


def _notes(obj: Obj) -> Obj:
    return metadata(obj).get("annotations") or {}


def _text(routes: object) -> str:
    return msgspec.json.encode(routes, order="sorted").decode()
