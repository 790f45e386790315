"""Which pods are evicted next: a few at a time, never one that nobody would replace, never the last healthy
replica of a workload. The server decides by the disruption budgets. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fathom.control.ownership import controller_of
from fathom.control.plan import Evict, target
from fathom.controllers.overrides.facts import owner_uid
from fathom.controllers.pod_states import has_ended, is_active, is_ready
from fathom.model.mirror import is_mirror
from fathom.model.objects import Obj, is_deleting, key_of, uid_of

# Few enough that their replacements are placed before the next ones go.
AT_ONCE = 3
REPLACED_BY_NOBODY = "it has no controller: no other pod would replace it"
OF_ITS_NODE = frozenset({"DaemonSet", "Node"})  # Their pods belong to the node that they are on.

Siblings = Mapping[str, Sequence[Obj]]


def next_evictions(
    pods: Sequence[Obj], siblings: Siblings, refused: Mapping[str, str], *, override: str
) -> tuple[Evict, ...]:
    """`pods` have to go; `siblings` are all pods of their controllers. One that is not ready may go although
    it is the only one; if it becomes ready meanwhile, it may not."""
    leaving = sum(is_deleting(pod) and not has_ended(pod) for pod in pods)
    chosen: dict[str, Obj] = {}
    for pod in sorted(pods, key=key_of):
        if leaving + len(chosen) >= AT_ONCE:
            break
        if is_active(pod) and not _stays(pod, siblings, chosen) and uid_of(pod) not in refused:
            chosen[uid_of(pod)] = pod
    return tuple(Evict(target("Pod", pod), override, as_read=not is_ready(pod)) for pod in chosen.values())


def staying(pods: Sequence[Obj], siblings: Siblings, refused: Mapping[str, str]) -> dict[str, str]:
    """The pods that are not evicted now, and why: NAMESPACE/NAME -> reason."""
    reasons = {
        "/".join(key_of(pod)): _stays(pod, siblings, {}) or refused.get(uid_of(pod), "")
        for pod in sorted(pods, key=key_of)
        if is_active(pod)
    }
    return {name: why for name, why in reasons.items() if why}


def belongs_to_node(pod: Obj) -> bool:
    return is_mirror(pod) or (controller_of(pod) or {}).get("kind") in OF_ITS_NODE


def _stays(pod: Obj, siblings: Siblings, chosen: Mapping[str, Obj]) -> str:
    owner = controller_of(pod)
    if owner is None:
        return REPLACED_BY_NOBODY
    if owner.get("kind") == "Job" or not is_ready(pod):
        return ""
    others = [
        other
        for other in siblings.get(owner_uid(pod), ())
        if is_active(other)
        and is_ready(other)
        and uid_of(other) not in chosen
        and uid_of(other) != uid_of(pod)
    ]
    return "" if others else f"it is the last healthy replica of {owner.get('kind')} {owner.get('name')}"
