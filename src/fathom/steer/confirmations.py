"""Asks the audit log, through Timelines, whether it has the writes that a run cites."""

from __future__ import annotations

from fathom.client.api import Api, own_resource
from fathom.client.outcomes import Committed
from fathom.kinds import timeline
from fathom.kinds.runbook_run import RunbookRunStatus
from fathom.kinds.shape import ObjectRef
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.objects import lookup

TIMELINES = own_resource(timeline.DEFINITION)


async def confirmed_writes(api: Api, status: RunbookRunStatus) -> frozenset[str]:
    """The audit ids of the run's writes that the audit log has. What cannot be asked is not confirmed."""
    writes = [write for record in status.steps for write in record.writes if write.audit_id]
    requests: set[str] = set()
    for ref in dict.fromkeys(write.object for write in writes if write.object is not None):
        requests |= await _requests_about(api, ref)
    return frozenset(write.audit_id for write in writes if write.audit_id in requests)


async def _requests_about(api: Api, ref: ObjectRef) -> set[str]:
    subject = {"kind": ref.kind, "name": ref.name, **({"uid": ref.uid} if ref.uid else {})}
    question = {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "Timeline",
        "spec": {"subject": subject, "fold": False},
    }
    outcome = await api.create(TIMELINES, ref.namespace or SYSTEM_NAMESPACE, question)
    if not isinstance(outcome, Committed):
        return set()
    entries = lookup(outcome.obj, "status", "entries") or ()
    return {str(lookup(entry, "ids", "request") or "") for entry in entries}
