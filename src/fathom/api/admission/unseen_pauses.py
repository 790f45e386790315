"""The admission plugin that refuses what was decided before an override paused something.

    1. Repair decides to delete a pod.  2. The request is slow: repair gives up waiting for the answer.
    3. An override pauses repair, repair observes that, and acknowledges it.  4. The request arrives.

The writer of such a request names the revision of the overrides that it decided by
(`Fathom-Overrides-Seen: REVISION`). It is refused while an override is in force that is newer and pauses
something in its namespace or on nodes: its writer reads the override, and decides again. The commit expects
the rules (`BindingFacts.rules`): no override comes into force between this check and the commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fathom.api.admission.attempt import CREATE, DELETE, UPDATE, Charge, WriteAttempt
from fathom.api.admission.plugin import Plugin
from fathom.api.binding.facts import BindingFacts, Override
from fathom.kinds.scheduler_override import override_active, pauses
from fathom.model.declared import Reads
from fathom.model.errors import ApiError, bad_request, conflict
from fathom.model.reasons import OVERRIDE_UNSEEN
from fathom.model.view import View
from fathom.seams.outside import Clock

DIGITS_MAX = 18


class UnseenPauses(Plugin):
    name = "UnseenPauses"
    operations = frozenset({CREATE, UPDATE, DELETE})
    subresources = None
    trusted = True
    reads = (
        Reads("SchedulerOverride", ("spec", "status"), "commit"),
        Reads("PlacementRules", source="commit"),
    )

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._facts: tuple[View, BindingFacts] | None = None

    def charge(self, attempt: WriteAttempt, view: View) -> Sequence[Charge]:
        if not attempt.overrides_seen:
            return ()
        facts, seen_revision = self._facts_of(view), _parse(attempt.overrides_seen)
        for override in self._in_force(facts, attempt.namespace):
            if override.revision > seen_revision:
                raise _unseen(attempt, override, seen_revision)
        return (Charge((facts.rules(),)),)

    def _in_force(self, facts: BindingFacts, namespace: str) -> Iterator[Override]:
        now_ns = self._clock.now_ns()
        for override in (*facts.overrides_of_nodes(), *facts.overrides_in(namespace)):
            if pauses(override.spec) and override_active(override.spec, now_ns):
                yield override

    def _facts_of(self, view: View) -> BindingFacts:
        if self._facts is None or self._facts[0] is not view:
            self._facts = (view, BindingFacts(view))
        return self._facts[1]


def _parse(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > DIGITS_MAX:
        raise bad_request(f'Fathom-Overrides-Seen: "{text}" is not a revision')
    return int(text)


def _unseen(attempt: WriteAttempt, override: Override, seen_revision: int) -> ApiError:
    meta = override.spec.metadata
    changed = f"override {meta.namespace}/{meta.name} changed at revision {override.revision}"
    why = f"it was decided by the overrides at revision {seen_revision}, and {changed}"
    error = conflict(attempt.kind.resource, attempt.name, why)
    error.details = {**error.details, "causes": [{"reason": OVERRIDE_UNSEEN, "message": why}]}
    return error
