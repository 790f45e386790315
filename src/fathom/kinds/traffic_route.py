"""TrafficRoute: where the traffic of a Service, or of a workload's pods, goes."""

from __future__ import annotations

from typing import Annotated

from fathom.kinds.definition import KindDefinition, Rules
from fathom.kinds.schema import Name, field_schema
from fathom.kinds.shape import Conditions, Meta, ObservedGeneration, Shape
from fathom.kinds.values import items, mapping
from fathom.model import causes
from fathom.model.column import Column
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj

WEIGHT_MAX = 1_000_000
_PLACES = ("region", "zone", "pool")


class Route(Shape, frozen=True):
    weight: Annotated[
        int,
        field_schema(
            "The share of this destination, relative to the other weights: of 9 and 1, the second gets every"
            " tenth connection. 0: only used if no other endpoint is left.",
            required=True,
            minimum=0,
            maximum=WEIGHT_MAX,
        ),
    ] = 0
    region: Annotated[
        Name, field_schema("Pods on nodes of this region. Set exactly one of region, zone and pool.")
    ] = ""
    zone: Annotated[Name, field_schema("Pods in this zone, such as eu-west-a.")] = ""
    pool: Annotated[Name, field_schema("Pods on nodes of this pool, by the node label fathom.dev/pool.")] = ""


class TrafficRouteSpec(Shape, frozen=True):
    service: Annotated[
        Name, field_schema("The Service whose traffic is routed. Set either service or workload.")
    ] = ""
    workload: Annotated[
        Name,
        field_schema(
            "Instead of service: the workload whose Service has the same name, as web or deployment/web."
        ),
    ] = ""
    routes: Annotated[
        tuple[Route, ...],
        field_schema(
            "The destinations: one region, zone or pool each, with its share. Pods elsewhere get traffic"
            " only if no destination has an endpoint.",
            required=True,
        ),
    ] = ()


class TrafficRouteStatus(Shape, frozen=True):
    observed_generation: ObservedGeneration = 0
    observed_by: Annotated[
        tuple[str, ...], field_schema("The gateways that have read the route, such as gateway.")
    ] = ()
    conditions: Annotated[
        Conditions,
        field_schema(
            "InForce: the gateway divides the traffic by these weights; if not, its reason says why."
        ),
    ] = ()


class TrafficRoute(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: Annotated[
        TrafficRouteSpec,
        field_schema(
            "Which traffic goes where. People write it, and overrides with trafficWeights.", required=True
        ),
    ] = TrafficRouteSpec()
    status: Annotated[
        TrafficRouteStatus, field_schema("Whether the route is in force. The gateway writes it.")
    ] = TrafficRouteStatus()


def validate(obj: Obj) -> list[Cause]:
    spec = mapping(obj.get("spec"))
    errors: list[Cause] = Causes()
    if bool(spec.get("service")) == bool(spec.get("workload")):
        errors.append(causes.required("spec.service", "exactly one of service and workload must be set"))
    for index, route in enumerate(items(spec.get("routes"))):
        places = [name for name in _PLACES if mapping(route).get(name)]
        if len(places) != 1:
            why = "must name exactly one of region, zone and pool"
            errors.append(causes.invalid(f"spec.routes[{index}]", places, why))
    errors += _repeated(spec)
    weights = [mapping(route).get("weight") for route in items(spec.get("routes"))]
    if weights and not any(isinstance(weight, int) and weight > 0 for weight in weights):
        errors.append(causes.invalid("spec.routes", weights, "at least one weight must be above 0"))
    return errors


def _repeated(spec: Obj) -> list[Cause]:
    """Two shares for one destination are refused: it is unclear which is meant."""
    seen: set[tuple[str, object]] = set()
    errors = []
    for index, route in enumerate(items(spec.get("routes"))):
        for by in _PLACES:
            place = mapping(route).get(by)
            if place and (by, place) in seen:
                errors.append(causes.duplicate(f"spec.routes[{index}].{by}", place))
            seen.add((by, place))
    return errors


DEFINITION = KindDefinition(
    shape=TrafficRoute,
    about="The shares of a Service's traffic that go to each region, zone or pool. Of several for one"
    " Service, the oldest is in force.",
    plural="trafficroutes",
    namespaced=True,
    short_names=("troute",),
    columns=(
        Column("Service", "string", ".spec.service"),
        Column("Workload", "string", ".spec.workload"),
        Column("Weights", "string", ".spec.routes[*].weight"),
    ),
    rules=Rules(validate_create=validate),
    view_role_reads=True,
    admin_role_writes=True,
)
ROUTES = DEFINITION.resource
