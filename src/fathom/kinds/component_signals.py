"""ComponentSignals: trouble that a component of the control plane reports about itself."""

from __future__ import annotations

from typing import Annotated

from fathom.kinds.definition import KindDefinition
from fathom.kinds.schema import REQUIRED, Name, Time, field_schema, one_of
from fathom.kinds.shape import Conditions, Meta, Shape
from fathom.model.column import Column


class ComponentSignal(Shape, frozen=True):
    name: Annotated[Name, REQUIRED] = ""
    message: str = ""
    since: Time = ""


class FieldFight(Shape, frozen=True):
    """A field that is changed back and forth."""

    form: Annotated[str, one_of("TwoWriters", "Oscillation")] = ""
    resource: Annotated[str, field_schema("As in deployments.apps.")] = ""
    namespace: str = ""
    name: str = ""
    field: str = ""
    writers: tuple[str, ...] = ()
    text: Annotated[str, field_schema("What happens to the field, by whom, and since when.")] = ""


class ComponentSignalsSpec(Shape, frozen=True):
    """Empty: a component only reports."""


class ComponentSignalsStatus(Shape, frozen=True):
    observed_at: Annotated[Time, field_schema("When the status was last written.")] = ""
    signals: Annotated[
        tuple[ComponentSignal, ...],
        field_schema("The problems that the component reports about itself now. Empty: it is healthy."),
    ] = ()
    fights: Annotated[
        tuple[FieldFight, ...],
        field_schema("Of field-fights: the fields that are changed back and forth now; at most a hundred."),
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
