"""CapacityClass: a pool of reserved capacity, and who may use it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from fathom.kinds.definition import KindDefinition, Rules
from fathom.kinds.schema import Amounts, Labels, Name, field_schema
from fathom.kinds.shape import Meta, Shape
from fathom.kinds.values import amount_causes, mapping, text
from fathom.model import causes, formats
from fathom.model.column import Column
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj

# On a pod, given at creation or by the binding: the reserved pool that it draws on.
CAPACITY_CLASS = "fathom.dev/capacity-class"

ANYONE = "*"


class CapacityClassSpec(Shape, frozen=True):
    node_selector: Annotated[
        Labels,
        field_schema("The nodes of the pool, by their labels: {pool: recovery}.", required=True),
    ] = msgspec.field(default_factory=dict)
    resources: Annotated[
        Amounts,
        field_schema(
            'How much of each node is kept free for the class: {cpu: "2"}. Absent: the whole node, and no pod'
            " of another class goes there."
        ),
    ] = msgspec.field(default_factory=dict)
    tenants: Annotated[
        tuple[Name, ...],
        field_schema("The tenants that may use it at any time; * is every tenant. Others need an override."),
    ] = ()
    description: Annotated[
        str, field_schema("What the class is for, for people. `kubectl get -o wide` shows it.")
    ] = ""


class CapacityClass(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: Annotated[
        CapacityClassSpec,
        field_schema("Which capacity is set aside, and for whom. People write it.", required=True),
    ] = CapacityClassSpec()

    @property
    def name(self) -> str:
        return self.metadata.name

    def holds(self, node_labels: Mapping[str, str]) -> bool:
        """Whether a node belongs to the pool. A class that selects nothing has no nodes."""
        wanted = self.spec.node_selector
        return bool(wanted) and all(node_labels.get(name) == value for name, value in wanted.items())

    @property
    def exclusive(self) -> bool:
        return not self.spec.resources

    def admits(self, tenant: str) -> bool:
        return ANYONE in self.spec.tenants or tenant in self.spec.tenants


def validate(obj: Obj) -> list[Cause]:
    errors: list[Cause] = Causes()
    spec = mapping(obj.get("spec"))
    if "nodeSelector" in spec and not spec["nodeSelector"]:
        errors.append(causes.required("spec.nodeSelector", "a pool needs at least one label"))
    for name, value in mapping(spec.get("nodeSelector")).items():
        errors += causes.each("spec.nodeSelector", name, formats.qualified_name(name))
        errors += causes.each(f"spec.nodeSelector[{name}]", value, formats.label_value(text(value)))
    errors += amount_causes(spec.get("resources"), "spec.resources")
    return errors


DEFINITION = KindDefinition(
    shape=CapacityClass,
    about="A pool of reserved capacity: nodes, or a part of each, for some tenants. Pods ask for it by the"
    " annotation fathom.dev/capacity-class.",
    plural="capacityclasses",
    namespaced=False,
    short_names=("cclass",),
    columns=(
        Column("Tenants", "string", ".spec.tenants[*]"),
        Column("Description", "string", ".spec.description", priority=1),
    ),
    rules=Rules(validate_create=validate),
    view_role_reads=True,
)
CAPACITY_CLASSES = DEFINITION.resource
