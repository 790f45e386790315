"""Unenforced: refuses or warns of fields and kinds that fathom stores but nothing acts on.

Fields that users rely on for safety are refused unless the writer accepts that by an annotation. The table is
`kube/definitions/unenforced.py`.
"""

from __future__ import annotations

from fathom.api.admission.attempt import WriteAttempt, refused
from fathom.api.admission.plugin import Plugin
from fathom.kube.definitions.unenforced import ACCEPT, RESOURCES, UnenforcedRule, is_accepted, unenforced
from fathom.model.declared import Reads
from fathom.model.errors import ApiError, Cause
from fathom.model.objects import Obj, is_deleting, lookup
from fathom.model.resource_names import LEASES
from fathom.model.times import SECOND_NS, moment_ns
from fathom.model.view import View
from fathom.seams.outside import Clock


class UnenforcedKinds(Plugin):
    name = "Unenforced"
    resources = frozenset(RESOURCES)
    trusted = True
    reads = (Reads("Lease", ("spec",)),)

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def validate(self, attempt: WriteAttempt, view: View) -> None:
        obj, old = attempt.obj or {}, attempt.old
        if old is not None and is_deleting(old):
            return  # The object is being deleted: only its finalizers are left.
        before = {} if old is None else _by_field(attempt.kind.resource, old)
        accepted = is_accepted(obj)
        for match in unenforced(attempt.kind.resource, obj):
            changed = before.get(match.rule.field) != match.values
            # An object that was stored before the rule existed can still change in other fields.
            if match.rule.refused and not accepted and (changed or is_accepted(old or {})):
                raise _refused(attempt, match.rule)
            if changed and not self._is_enforced(match.rule, view):
                attempt.warn(f"{match.rule.field or attempt.kind.kind}: kept, but {match.rule.says}")

    def _is_enforced(self, rule: UnenforcedRule, view: View) -> bool:
        """Whether another program enforces it: that program holds its lease."""
        seen = view.get(LEASES, rule.acts) if rule.acts is not None else None
        return seen is not None and is_held(seen.obj, self._clock.now_ns())


def is_held(lease: Obj, now_ns: int) -> bool:
    renewed_ns = moment_ns(lookup(lease, "spec", "renewTime"))
    lasts_s = lookup(lease, "spec", "leaseDurationSeconds") or 0
    held = bool(lookup(lease, "spec", "holderIdentity"))
    return held and renewed_ns is not None and now_ns < renewed_ns + int(lasts_s) * SECOND_NS


def _by_field(resource: str, obj: Obj) -> dict[str, tuple[object, ...]]:
    return {match.rule.field: match.values for match in unenforced(resource, obj)}


def _refused(attempt: WriteAttempt, rule: UnenforcedRule) -> ApiError:
    how = f'to store it all the same, set the annotation {ACCEPT}: "true"'
    cause = Cause(rule.field or "kind", "Unenforced", rule.says)
    return refused(attempt, f"{rule.says}; {how}", (cause,))
