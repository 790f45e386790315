"""BindingBatch: many bindings in one request. It is answered, never stored: `api/subresources/binding.py`."""

from __future__ import annotations

from typing import Annotated, Any

from fathom.kinds.definition import KindDefinition
from fathom.kinds.schema import field_schema
from fathom.kinds.shape import Meta, Shape


class BindingBatch(Shape, frozen=True):
    """The handler parses each item: a batch with one bad item is not refused as a whole."""

    metadata: Meta = Meta()
    items: Annotated[
        tuple[dict[str, Any], ...],
        field_schema(
            "The bindings: namespace, name and uid of the pod, its node, and what the placement relied on"
            " (nodeUid, nodeRevision, policy, overrides, reservation). The answer has a result for each.",
            maxItems=1024,
        ),
    ] = ()


DEFINITION = KindDefinition(
    shape=BindingBatch,
    about="Many pods bound to nodes in one request, each with a result of its own. A scheduler sends it;"
    " nothing is stored.",
    plural="bindingbatches",
    namespaced=False,
    verbs=("create",),
)
BATCHES = DEFINITION.resource
