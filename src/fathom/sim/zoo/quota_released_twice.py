"""20. A quota is released when a pod's deletion is requested and again when the pod is gone: one deletion
counts twice."""

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
    is_request = is_pod and attempt.operation == DELETE and not is_deleting(attempt.old or {})
    return tuple(_settle(attempt, view)) if is_request else right(self, attempt, view)


put_back(ResourceQuota, "charge", when_told_and_when_gone)
