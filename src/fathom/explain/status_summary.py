"""The first line of `fathom status`: how a workload is, in one sentence. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fathom.controllers.pod_states import is_active, is_ready
from fathom.model.conditions import SERVING_CONDITION, conditions_of, find_condition
from fathom.model.objects import Obj, uid_of


class Replicas(msgspec.Struct, frozen=True, kw_only=True):
    wanted: int | None  # None: the workload says no number, as a Job or a pod.
    pods: Sequence[Obj]  # Of all its templates.
    newest: Sequence[Obj]  # Of the newest template.
    missing: int  # Not created: so many fewer than wanted exist, of all templates.
    reason: str = ""  # Why they wait.
    behind: Sequence[str] = ()  # Kinds whose newest change the scheduler has not seen.

    @property
    def waiting(self) -> list[Obj]:
        return [pod for pod in self.newest if is_active(pod) and not is_ready(pod)]


def summary_of(name: str, replicas: Replicas) -> str:
    """'deployment/web: 2 of 3 replicas serve; 1 is not ready: quota/risk-zone-c'. `name`: KIND/NAME."""
    parts = [_good(replicas)]
    if not (replicas.wanted is None and not replicas.pods):
        parts += _bad(replicas)
    waits = bool(replicas.waiting or replicas.missing)
    if waits and replicas.behind:
        parts.append(f"the scheduler has not seen the newest change of {', '.join(replicas.behind)}")
    return f"{name}: {'; '.join(parts)}"


def _good(replicas: Replicas) -> str:
    active = [pod for pod in replicas.pods if is_active(pod)]
    well = [pod for pod in active if is_ready(pod) and _serves(pod) is not False]
    word = "serve" if any(_serves(pod) is not None for pod in active) else "are ready"
    if replicas.wanted == 0:
        return "no replica is wanted"
    if replicas.wanted is None and not active:
        return "no pod of it runs"
    wanted, noun = (len(active), "pods") if replicas.wanted is None else (replicas.wanted, "replicas")
    count = min(len(well), wanted)
    return f"{f'all {wanted}' if count == wanted > 1 else f'{count} of {wanted}'} {noun} {word}"


def _bad(replicas: Replicas) -> list[str]:
    newest = set(map(uid_of, replicas.newest))
    older = any(is_active(pod) and uid_of(pod) not in newest for pod in replicas.pods)
    of_newest = " of the newest template" if older else ""
    counts = [(len(replicas.waiting), of_newest, "not ready"), (replicas.missing, "", "not created")]
    parts = [f"{count}{of} {'is' if count == 1 else 'are'} {word}" for count, of, word in counts if count]
    unserved = sum(is_active(pod) and is_ready(pod) and _serves(pod) is False for pod in replicas.pods)
    if parts and replicas.reason:
        parts[-1] += f": {replicas.reason}"
    if unserved:
        parts.append(f"{unserved} {'is' if unserved == 1 else 'are'} ready and not reached by the gateway")
    return parts


def _serves(pod: Obj) -> bool | None:
    """Whether the gateway reaches it; None for a pod of no Service."""
    condition = find_condition(conditions_of(pod), SERVING_CONDITION)
    return None if condition is None else condition.get("status") == "True"
