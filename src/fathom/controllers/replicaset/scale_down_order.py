"""Which pods are deleted first when there are too many: the order of Kubernetes' own controllers. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from fathom.controllers.pod_states import created_s, is_ready, phase_of, ready_since_s, restarts_of
from fathom.model.objects import Obj, lookup, metadata
from fathom.model.well_known import DELETION_COST_ANNOTATION

COST_MAX = 2**31 - 1

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def leaving_first(
    pods: Sequence[Obj], related: Sequence[Obj], slot_of: Callable[[Obj], int | None]
) -> list[Obj]:
    """The least useful pods first: without a node, pending, not ready, cheap to delete, beside many of their
    kind on one node, ready for a short time, restarted often, young. `related`: the pods of the same
    workload, of all its revisions."""
    pods_per_node = Counter(node for pod in related if (node := node_of(pod)))

    def worth(pod: Obj) -> tuple[object, ...]:
        slot = slot_of(pod)
        return (
            bool(node_of(pod)),
            _PHASES.get(phase_of(pod), 0),
            is_ready(pod),
            cost_of(pod),
            -pods_per_node[node_of(pod)],
            -(ready_since_s(pod) or 0.0),
            -restarts_of(pod),
            -created_s(pod),
            # Makes the order total; high slots before low ones keeps the taken ones together.
            -(slot if slot is not None else -1),
            str(metadata(pod).get("name")),
        )

    return sorted(pods, key=worth)


def node_of(pod: Obj) -> str:
    return str(lookup(pod, "spec", "nodeName") or "")


def cost_of(pod: Obj) -> int:
    """An annotation that is no 32-bit integer costs 0, as in Kubernetes."""
    text = str((metadata(pod).get("annotations") or {}).get(DELETION_COST_ANNOTATION, "0"))
    digits = text[1:] if text[:1] in {"-", "+"} else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > 10:
        return 0
    return int(text) if -COST_MAX - 1 <= int(text) <= COST_MAX else 0
