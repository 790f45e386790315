"""Who removes fathom's finalizer from an override: the controllers, when nothing of it is left.

The cluster's administrator may too, where that takes no proof away: after the controllers have named what is
left, or where no controller runs any more.
"""

from __future__ import annotations

import msgspec

from fathom.api.admission.attempt import WriteAttempt, refused
from fathom.kinds.override_status import CONTROLLERS_LEASE
from fathom.kinds.override_summary import RESIDUE, proof_of
from fathom.kinds.scheduler_override import SchedulerOverride
from fathom.kinds.shape import GROUP, read
from fathom.model.accounts import CONTROLLERS, SYSTEM_NAMESPACE
from fathom.model.objects import Key, Obj, lookup, metadata
from fathom.model.resource_names import LEASES
from fathom.model.times import SECOND_NS, moment_ns
from fathom.model.user import MASTERS
from fathom.model.view import View


def check_finalizers(attempt: WriteAttempt, view: View, *, now_ns: int) -> None:
    before, after = (metadata(obj or {}).get("finalizers") or () for obj in (attempt.old, attempt.obj))
    removed = [name for name in before if name.startswith(f"{GROUP}/") and name not in after]
    user = attempt.user
    if not removed or (user.name == CONTROLLERS and not user.impersonator):
        return
    if MASTERS not in user.groups:
        why = f"only {CONTROLLERS} removes {removed[0]}, when nothing of the override is left"
        raise refused(attempt, why)
    if not _end_is_judged(attempt.old or {}) and _controllers_run(view, now_ns):
        why = f"the controllers run: they remove {removed[0]}, or name what is left; end the override"
        raise refused(attempt, why)


def _end_is_judged(override: Obj) -> bool:
    """Not while its effects are looked for, or undone."""
    try:
        proof = proof_of(read(SchedulerOverride, override))
    except msgspec.ValidationError:
        return True  # No fathom server stores one, and no controller can read it.
    return proof is not None and (proof.status == "True" or proof.reason == RESIDUE)


def _controllers_run(view: View, now_ns: int) -> bool:
    """As far as the times in their lease say."""
    seen = view.get(LEASES, Key(SYSTEM_NAMESPACE, CONTROLLERS_LEASE))
    if seen is None or not lookup(seen.obj, "spec", "holderIdentity"):
        return False
    renewed_ns = moment_ns(lookup(seen.obj, "spec", "renewTime"))
    lasts_ns = int(lookup(seen.obj, "spec", "leaseDurationSeconds") or 0) * SECOND_NS
    return renewed_ns is not None and now_ns < renewed_ns + lasts_ns
