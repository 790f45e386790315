"""Writes each tenant's usage into the status of its TenantQuota, for readers; the ledger is what counts."""

from __future__ import annotations

from fathom.controllers.housekeeping.resource_quotas import Mend
from fathom.controllers.housekeeping.writer import HousekeepingWriter, ignored
from fathom.kinds.shape import API_VERSION
from fathom.kinds.tenant_quota import TENANT_QUOTAS
from fathom.model.cause import WakeCause
from fathom.model.decision import Subject
from fathom.model.objects import Obj, metadata, uid_of
from fathom.model.view import View

EVERY_S = 2.0
TIMER = WakeCause("timer", f"every {EVERY_S:g} s")


class TenantController:
    def __init__(self, *, writer: HousekeepingWriter, view: View, status: Mend) -> None:
        self._writer = writer
        self._view = view
        self._status = status

    async def report(self) -> None:
        for seen in list(self._view.list(TENANT_QUOTAS)):
            status = self._status(seen.obj, self._view)
            if status is not None:
                await self._write(seen.obj, seen.revision, status)

    async def _write(self, quota: Obj, revision: int, status: Obj) -> None:
        meta = {**metadata(quota), "resourceVersion": str(revision)}
        path = f"/apis/{API_VERSION}/tenantquotas/{metadata(quota)['name']}/status"
        subject = Subject(TENANT_QUOTAS, "", str(metadata(quota)["name"]), uid_of(quota))
        body, why = {**quota, "metadata": meta, "status": status}, "the usage of the tenant changed"
        with ignored(404, 409):  # The quota is gone, or another server was faster: next time.
            await self._writer.write("PUT", path, subject, cause=TIMER, why=why, body=body)
