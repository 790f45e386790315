"""Finds the pod that a reservation is held for, if the namespace's ResourceQuotas already charge for it.

A pod is charged when it is created. When pods are preempted for it, its room is reserved: to charge that too
would count one pod twice. A reservation that a user makes, or that is made before its pod exists, is charged
like a pod.

    1. Pod p is created: charged.  2. p's reservation is made: not charged.  3. p is bound: it becomes Bound.

Each pod has one reservation of its own: the one whose name is derived from the pod, if it keeps no more than
the pod requests.
"""

from __future__ import annotations

from fathom.api.ledger.holdings import pod_counts, reservation_holding, reserved_counts
from fathom.kinds.reservation import CHARGED_WITH, HOLDER, HOLDER_UID, intent_of, reservation_name
from fathom.model.objects import Key, Obj, key_of, lookup, metadata, uid_of
from fathom.model.pod_phase import is_terminal
from fathom.model.view import View


def charged_pod(reservation: Obj, old: Obj | None, view: View) -> str | None:
    """The pod's UID; None if the reservation itself is charged. The result stays the same while the
    reservation holds room for the same pod: repair gives back the reservation of a removed pod."""
    before = lookup(old, "metadata", "annotations", CHARGED_WITH)
    held = reservation_holding(old) is not None or reservation_holding(reservation) is None
    if before is not None and held and before == _notes(reservation).get(HOLDER_UID):
        return str(before)
    return _own_pod(reservation, view)


def _own_pod(reservation: Obj, view: View) -> str | None:
    key, notes = key_of(reservation), _notes(reservation)
    seen = view.get("pods", Key(key.namespace, str(notes.get(HOLDER) or "")))
    if seen is None or uid_of(seen.obj) != notes.get(HOLDER_UID):
        return None
    pod = seen.obj
    waits = not lookup(pod, "spec", "nodeName") and not is_terminal(pod)
    if not waits or key.name != reservation_name(intent_of(pod)):
        return None
    requests = pod_counts(pod)
    within = all(amount <= requests.get(name, 0) for name, amount in reserved_counts(reservation).items())
    return uid_of(pod) if within else None


def _notes(obj: Obj) -> Obj:
    return metadata(obj).get("annotations") or {}
