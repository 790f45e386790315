"""Fences: a leader that has lost its lease cannot write any more, even if it does not know yet.

    1. A holds the lease.  2. A is paused.  3. The lease expires, B takes it.  4. A resumes and writes.

When a Lease changes its holder, its fence is written in the same commit: the new holder's epoch. A writer
names the epoch it holds (`Fathom-Fence: namespace/name/epoch`); the fence's revision is then a precondition
of its commit. So step 4 fails in the store, whatever A believes. Renewals do not touch the fence, so they
cause no retries.

The holder learns its epoch from the Lease's annotation.
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.api.admission.attempt import CREATE, DELETE, UPDATE, Charge, WriteAttempt, refused
from fathom.api.admission.plugin import Plugin
from fathom.model.accounts import SYSTEM_NAMESPACE, is_lease_for, lease_of
from fathom.model.body import Body
from fathom.model.declared import Reads, Writes
from fathom.model.errors import ApiError, bad_request
from fathom.model.objects import Key, Obj, metadata, with_metadata
from fathom.model.processes import PREFIX
from fathom.model.reasons import FENCED
from fathom.model.resource_names import LEASES, SLICES
from fathom.model.view import Seen, View
from fathom.model.well_known import EPOCH_ANNOTATION
from fathom.store.protocol import Expect, Put

FENCES = "fences.fathom.dev"  # A resource of the store and its views, not of the API.

# What an account that must hold a lease may write without it: the lease itself, and objects that decide
# nothing.
EVENTS = frozenset({"events", "events.events.k8s.io"})


def fence_key(lease: Key) -> str:
    return f"/registry/{FENCES}/{lease.namespace}/{lease.name}"


class LeaseFence(Plugin):
    """Moves the fence when a lease changes its holder."""

    name = "LeaseFence"
    resources = frozenset({LEASES})
    operations = frozenset({CREATE, UPDATE})
    trusted = True
    reads = (Reads("Lease", ("spec",), "commit"), Reads("Fence", source="commit"))
    writes = (Writes("Fence", ("*",), creates=True, deletes=True),)

    def mutate(self, attempt: WriteAttempt, view: View) -> Obj:
        assert attempt.obj is not None
        epoch = self._epoch(attempt, view)
        before = metadata(attempt.obj).get("annotations") or {}
        if before.get(EPOCH_ANNOTATION) == str(epoch):
            return attempt.obj
        annotations = {**before, EPOCH_ANNOTATION: str(epoch)}
        return with_metadata(attempt.obj, annotations=annotations)

    def charge(self, attempt: WriteAttempt, view: View) -> Sequence[Charge]:
        if not _changes_hands(attempt):
            return ()
        key = fence_key(Key(attempt.namespace, attempt.name))
        seen = _fence(view, Key(attempt.namespace, attempt.name))
        fence = {
            "kind": "Fence",
            "apiVersion": "fathom.dev/v1alpha1",
            "metadata": {"name": attempt.name, "namespace": attempt.namespace},
            "epoch": self._epoch(attempt, view),
            "holder": _holder(attempt.obj),
        }
        expected = Expect(key, seen.revision if seen else 0)
        return (Charge(preconditions=(expected,), writes=(Put(key, Body(fence)),)),)

    def _epoch(self, attempt: WriteAttempt, view: View) -> int:
        """Grows with every change of the holder, also across the lease's deletion: the fence stays. While the
        holder stays the same, the epoch comes from the lease itself: our view of the fence may be behind, and
        no precondition of this commit would notice."""
        changes_hands = _changes_hands(attempt)
        if attempt.old is not None and not changes_hands:
            written = (metadata(attempt.old).get("annotations") or {}).get(EPOCH_ANNOTATION)
            if written is not None:
                return int(written)
        seen = _fence(view, Key(attempt.namespace, attempt.name))
        epoch = int(seen.obj["epoch"]) if seen else 0
        return epoch + 1 if changes_hands else epoch


def _changes_hands(attempt: WriteAttempt) -> bool:
    return _holder(attempt.obj) != _holder(attempt.old)


def _holder(lease: Obj | None) -> str:
    spec = lease.get("spec") if lease is not None else None
    return str(spec.get("holderIdentity") or "") if spec else ""


def _fence(view: View, lease: Key) -> Seen | None:
    return view.get(FENCES, lease)


class Fencing(Plugin):
    """Makes a write expect the fence that its writer names. The table in `model.accounts` says which accounts
    must name one, and of which lease."""

    name = "Fencing"
    operations = frozenset({CREATE, UPDATE, DELETE})
    subresources = None
    trusted = True
    reads = (Reads("Fence", source="commit"),)

    def charge(self, attempt: WriteAttempt, view: View) -> Sequence[Charge]:
        wanted = lease_of(attempt.user.name)
        if not attempt.fence:
            if wanted is not None and not _needs_no_fence(attempt, wanted):
                raise _unfenced(attempt, wanted)
            return ()
        lease, epoch = _parse(attempt.fence)
        if wanted is not None and not is_lease_for(wanted, lease):
            raise _unfenced(attempt, wanted)
        seen = _fence(view, lease)
        if seen is None or int(seen.obj["epoch"]) != epoch:
            raise _epoch_over(lease, epoch, seen)
        return (Charge(preconditions=(Expect(fence_key(lease), seen.revision),)),)


def _needs_no_fence(attempt: WriteAttempt, wanted: Key) -> bool:
    resource = attempt.kind.resource
    if resource == LEASES:
        return is_lease_for(wanted, Key(attempt.namespace, attempt.name))
    if resource == SLICES:  # Those of metrics addresses: standbys write theirs too.
        return attempt.namespace == SYSTEM_NAMESPACE and attempt.name.startswith(PREFIX)
    return resource in EVENTS


def _unfenced(attempt: WriteAttempt, wanted: Key) -> ApiError:
    lease = f"{wanted.namespace}/{wanted.name}"
    return refused(
        attempt,
        f"{attempt.user.name} must hold the lease {lease} to write, and name it in the header"
        f" Fathom-Fence: {lease}/EPOCH",
    )


def _parse(text: str) -> tuple[Key, int]:
    parts = text.split("/")
    if len(parts) != 3 or not parts[2].isascii() or not parts[2].isdigit() or len(parts[2]) > 18:
        raise bad_request(f'Fathom-Fence: "{text}" is not of the form namespace/name/epoch')
    return Key(parts[0], parts[1]), int(parts[2])


def _epoch_over(lease: Key, epoch: int, seen: Seen | None) -> ApiError:
    now = f"epoch {seen.obj['epoch']}, held by {seen.obj['holder'] or 'nobody'}" if seen else "never held"
    lease_name = f"lease {lease.namespace}/{lease.name}"
    message = f"the writer does not hold {lease_name}: epoch {epoch} is over ({now})"
    details = {
        "kind": "fences",
        "group": "fathom.dev",
        "name": lease.name,
        "causes": [{"reason": FENCED, "message": now}],
    }
    return ApiError(409, "Conflict", message, details=details)
