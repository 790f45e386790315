"""fathom's own kinds as the API serves them, made from the table in `fathom.kinds.all`.

They are built in here, and installed as CRDs in other API servers."""

from __future__ import annotations

from fathom.kinds import coupling, decision, explanation, timeline
from fathom.kinds.all import KINDS
from fathom.kinds.definition import KindDefinition
from fathom.kinds.shape import ASK_GROUP, GROUP, VERSION
from fathom.kube.definitions.kind import ALL_VERBS, Kind
from fathom.model.column import Column

AGE = Column("Age", "date", ".metadata.creationTimestamp")


def own_kind(definition: KindDefinition, group: str = GROUP) -> Kind:
    kind = definition.kind
    return Kind(
        group=group,
        version=VERSION,
        kind=kind,
        plural=definition.plural,
        singular=kind.lower(),
        namespaced=definition.namespaced,
        list_kind=f"{kind}List",
        short_names=definition.short_names,
        categories=("fathom",) if definition.stored else (),
        verbs=definition.verbs or ALL_VERBS,
        subresources=definition.subresources,
        generation=definition.stored,
        columns=(*definition.columns, AGE) if definition.columns or definition.stored else (),
        selectable=definition.selectable,
        schema=definition.schema,
        virtual=definition.asks,
    )


OWN_KINDS: tuple[Kind, ...] = tuple(own_kind(definition) for definition in KINDS)
# Those that an attached fathom answers through the cluster's own server.
ASK_KINDS: tuple[Kind, ...] = tuple(
    own_kind(module.DEFINITION, ASK_GROUP) for module in (decision, explanation, timeline, coupling)
)
