"""20. A quota is given back when a pod is told to go, and once more when it is gone: a delete that is
observed twice counts twice."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.api.admission.attempt import DELETE, Charge, WriteAttempt
from fathom.api.admission.quota import ResourceQuota, _settle
from fathom.api.admission.usage import PODS
from fathom.model.objects import is_deleting
from fathom.model.view import View
from fathom.sim.zoo import put_back

SCENARIOS = ("quota-changes",)
BREAKS = "ledger equals the sum of its pods"

right = ResourceQuota.charge


def when_told_and_when_gone(self: ResourceQuota, attempt: WriteAttempt, view: View) -> Sequence[Charge]:
    is_pod = attempt.kind.resource == PODS
    told = is_pod and attempt.operation == DELETE and not is_deleting(attempt.old or {})
    return tuple(_settle(attempt, view)) if told else right(self, attempt, view)


put_back(ResourceQuota, "charge", when_told_and_when_gone)
