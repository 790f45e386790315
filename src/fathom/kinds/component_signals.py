"""ComponentSignals: trouble that a component of the control plane reports about itself."""

from __future__ import annotations

from typing import Annotated

from fathom.kinds.definition import KindDefinition
from fathom.kinds.schema import Name, Time, field_schema, one_of
from fathom.kinds.shape import Conditions, Meta, Shape
from fathom.model.column import Column


class ComponentSignal(Shape, frozen=True):
    name: Annotated[
        Name, field_schema("The problem, such as request-timeout or watch-disconnect.", required=True)
    ] = ""
    message: Annotated[str, field_schema("What the component notices, for people.")] = ""
    since: Annotated[Time, field_schema("When the signals of the component last changed.")] = ""


class FieldFight(Shape, frozen=True):
    form: Annotated[
        str,
        one_of("TwoWriters", "Oscillation"),
        field_schema(
            "TwoWriters: two writers undo each other's changes. Oscillation: its value goes back and forth."
        ),
    ] = ""
    resource: Annotated[str, field_schema("The resource of the object, such as deployments.apps.")] = ""
    namespace: Annotated[str, field_schema("The namespace of the object. Absent: it has none.")] = ""
    name: Annotated[str, field_schema("The name of the object.")] = ""
    field: Annotated[
        str,
        field_schema(
            "The path of the field, such as spec.replicas. metadata.uid or metadata.name: the object itself"
            " is deleted and created in turn."
        ),
    ] = ""
    writers: Annotated[
        tuple[str, ...], field_schema("Who writes it: parts of fathom, or users with their programs.")
    ] = ()
    text: Annotated[str, field_schema("What happens to the field, by whom, and since when.")] = ""
    seen_by: Annotated[
        str,
        field_schema("The API server that noticed it, where several share a store. Absent: there is one."),
    ] = ""
    seen_at: Annotated[
        Time,
        field_schema("When that server last said so, at most half a minute ago: else it runs no longer."),
    ] = ""


class ComponentSignalsSpec(Shape, frozen=True):
    """A component only reports."""


class ComponentSignalsStatus(Shape, frozen=True):
    observed_at: Annotated[Time, field_schema("When the status was last written.")] = ""
    signals: Annotated[
        tuple[ComponentSignal, ...],
        field_schema("The problems that the component reports about itself now. Empty: it is healthy."),
    ] = ()
    fights: Annotated[
        tuple[FieldFight, ...],
        field_schema("Only of field-fights: fields that are changed back and forth now; at most a hundred."),
    ] = ()
    conditions: Annotated[
        Conditions,
        field_schema("Only of field-fights. TwoWriters, Oscillation: at least one such fight goes on now."),
    ] = ()


class ComponentSignals(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: Annotated[ComponentSignalsSpec, field_schema("Empty: there is nothing to ask for.")] = (
        ComponentSignalsSpec()
    )
    status: Annotated[
        ComponentSignalsStatus, field_schema("What the component reports. It writes this itself.")
    ] = ComponentSignalsStatus()


DEFINITION = KindDefinition(
    shape=ComponentSignals,
    about="Trouble that a component of the control plane reports about itself, such as requests without an"
    " answer. Its name is the component's; field-fights has the fights over fields.",
    plural="componentsignals",
    namespaced=False,
    short_names=("signals",),
    columns=(
        Column("Raised", "string", ".status.signals[*].name"),
        Column("Message", "string", ".status.signals[*].message"),
    ),
)
