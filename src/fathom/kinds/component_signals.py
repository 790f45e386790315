"""ComponentSignals: trouble that a component of the control plane reports about itself."""

from __future__ import annotations

from typing import Annotated

from fathom.kinds.definition import KindDefinition
from fathom.kinds.schema import REQUIRED, Name, Time, field_schema
from fathom.kinds.shape import Conditions, Meta, Shape
from fathom.model.column import Column


class ComponentSignal(Shape, frozen=True):
    name: Annotated[Name, REQUIRED] = ""
    message: str = ""
    since: Time = ""


class ComponentSignalsSpec(Shape, frozen=True):
    """Empty: a component only reports."""


class ComponentSignalsStatus(Shape, frozen=True):
    observed_at: Annotated[Time, field_schema("When the status was last written.")] = ""
    signals: Annotated[
        tuple[ComponentSignal, ...],
        field_schema("The problems that the component reports about itself now. Empty: it is healthy."),
    ] = ()
    conditions: Conditions = ()


class ComponentSignals(Shape, frozen=True):
    """Cluster-scoped; its name is the component's."""

    metadata: Meta = Meta()
    spec: ComponentSignalsSpec = ComponentSignalsSpec()
    status: ComponentSignalsStatus = ComponentSignalsStatus()


DEFINITION = KindDefinition(
    shape=ComponentSignals,
    plural="componentsignals",
    namespaced=False,
    short_names=("signals",),
    columns=(
        Column("Raised", "string", ".status.signals[*].name"),
        Column("Message", "string", ".status.signals[*].message"),
    ),
)
