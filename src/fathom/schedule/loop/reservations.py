"""Reservations of preempted room: it stays the pod's until it is bound, and every scheduler counts it taken.

    victims are evicted ──> Reservation (awaits them) ──> they are gone ──> the binding names it:
                              │                                             pod and ledger at once
                              └─ it expires, or its pod is gone: repair deletes it

A reservation is named after what it is for (workload, slot, generation and intent; a pod without a workload
is its own), so a scheduler that repeats the step, after a crash or a lost answer, finds the first one:

    1. A create commits, its answer is lost. 2. The leader dies. 3. The next one's cache shows no reservation.
    4. It creates the same name: a conflict, which a read resolves. There is one reservation, and it is ours.

Without a reservation the pod is only nominated: it gets its room if no other pod is faster. That is so where
the server does not know reservations (a Kubernetes cluster that fathom is attached to), or refuses.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from fathom.client.api import Api
from fathom.client.outcomes import Committed, Conflict, Outcome, Rejected, Unknown
from fathom.kinds.capacity_class import CAPACITY_CLASS
from fathom.kinds.reservation import (
    HOLDER,
    HOLDER_UID,
    HOLDING,
    PREEMPT,
    Reservation,
    intent_of,
    reservation_name,
)
from fathom.kinds.shape import read
from fathom.model.errors import ApiError
from fathom.model.objects import Key, Obj, is_deleting, key_of, labels_of, lookup, uid_of
from fathom.model.podresources import REQUESTS, pod_amounts
from fathom.model.tenancy import TENANT
from fathom.model.times import SECOND_NS, moment_ns, timestamp
from fathom.schedule.decide.pods import PodView
from fathom.schedule.loop.watched_kinds import RESERVATION

# Longer than most grace periods. A waiting pod is looked at once a minute (`queue.PARKED_S_MAX`): with each
# look its reservation is renewed, so that it outlives one renewal that fails.
RESERVED_S, RENEWED_S = 120, 100
AWAITED_MAX = 256  # The limit in the kind's schema.
# Create, remove a reservation that is in the way, create again; then wait for the pod's next attempt.
TRIES_MAX = 2

LeaseStatus = Literal["free", "ours", "void", "another's"]


def reservation_for(pod: Obj, node: str, awaited: Iterable[PodView], *, now_ns: int) -> Obj:
    """A Reservation of all that the pod requests. The pod owns it, so it is deleted with the pod."""
    key, uid, intent = key_of(pod), uid_of(pod), intent_of(pod)
    tenant, drawn = labels_of(pod).get(TENANT), lookup(pod, "metadata", "annotations", CAPACITY_CLASS)
    amounts = {name: str(amount) for name, amount in sorted(pod_amounts(pod, REQUESTS).items())}
    awaits = [{"name": view.key.name, "namespace": view.key.namespace, "uid": view.uid} for view in awaited]
    return {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": {
            "name": reservation_name(intent),
            "namespace": key.namespace,
            "annotations": {HOLDER: key.name, HOLDER_UID: uid},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": key.name, "uid": uid}],
            **({"labels": {TENANT: tenant}} if tenant else {}),
        },
        "spec": {
            "workload": {"name": intent.workload, "uid": intent.uid, "generation": intent.generation},
            "slot": intent.slot,
            "intent": PREEMPT,
            "nodeName": node,
            "resources": {**amounts, "pods": "1"},
            "awaits": awaits[:AWAITED_MAX],
            "expiresAt": timestamp(now_ns + RESERVED_S * SECOND_NS),
            **({"capacityClass": drawn} if drawn else {}),
        },
    }


def holder_of(reservation: Obj) -> str:
    """The UID of the pod that a reservation is held for."""
    return str(lookup(reservation, "metadata", "annotations", HOLDER_UID) or "")


def standing_of(existing: Obj | None, wanted: Obj, *, now_ns: int) -> LeaseStatus:
    """What the object of the wanted name is to us. A void reservation of ours is replaced, as is one for
    another node."""
    if existing is None:
        return "free"
    reservation = read(Reservation, existing)
    usable = reservation.status.phase in HOLDING and not is_deleting(existing)
    expires_ns = moment_ns(reservation.spec.expires_at)
    if usable and holder_of(existing) != holder_of(wanted):
        return "another's"
    if not usable or reservation.spec.node_name != wanted["spec"]["nodeName"]:
        return "void"
    return "void" if expires_ns is not None and now_ns >= expires_ns else "ours"


def is_due(expires_ns: int, *, now_ns: int) -> bool:
    """Whether a reservation that is still needed must be renewed now. 0 never expires."""
    return 0 < expires_ns < now_ns + RENEWED_S * SECOND_NS


async def reserve(api: Api, wanted: Obj, *, now_ns: int) -> Obj | None:
    """Make the reservation, and return it as stored. None: there is none, or the outcome is unknown."""
    key = key_of(wanted)
    for _ in range(TRIES_MAX):
        outcome = await api.create(RESERVATION.resource, key.namespace, wanted)
        if isinstance(outcome, Committed):
            return outcome.obj
        if not isinstance(outcome, (Conflict, Unknown)):
            return None
        existing = await _read(api, key)
        if isinstance(existing, ApiError):
            return None
        lease_status = standing_of(existing, wanted, now_ns=now_ns)
        if existing is not None and lease_status == "ours":
            return await _renewed(api, existing, wanted, now_ns=now_ns)
        if lease_status == "another's" or (lease_status == "free" and isinstance(outcome, Conflict)):
            return None  # In the latter case it was not the name: there is no room.
        if existing is not None:
            await release(api, key, uid_of(existing))
    return None


async def _renewed(api: Api, existing: Obj, wanted: Obj, *, now_ns: int) -> Obj:
    if not is_due(moment_ns(lookup(existing, "spec", "expiresAt")) or 0, now_ns=now_ns):
        return existing
    key = key_of(existing)
    patch = {"metadata": {"uid": uid_of(existing)}, "spec": {"expiresAt": wanted["spec"]["expiresAt"]}}
    outcome = await api.patch(RESERVATION.resource, key.namespace, key.name, patch)
    return outcome.obj if isinstance(outcome, Committed) else existing


async def release(api: Api, key: Key, uid: str) -> Outcome:
    """Delete a reservation. A binding that uses it at this moment either commits first, or is refused."""
    return await api.delete(RESERVATION.resource, key.namespace, key.name, uid=uid)


def is_gone(outcome: Outcome) -> bool:
    """Whether the object is known to be gone. A delete that was refused, or not sent, has freed nothing."""
    return isinstance(outcome, Committed) or (isinstance(outcome, Rejected) and outcome.code == 404)


async def _read(api: Api, key: Key) -> Obj | ApiError | None:
    try:
        return await api.get(RESERVATION.resource, key.namespace, key.name)
    except ApiError as error:
        return error
