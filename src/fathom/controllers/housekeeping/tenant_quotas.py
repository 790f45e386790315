"""Writes each tenant's usage into the status of its TenantQuota, for readers; the ledger is what counts."""

from __future__ import annotations

from fathom.client.local import LocalClient
from fathom.controllers.housekeeping.resource_quotas import Mend
from fathom.kinds.shape import API_VERSION
from fathom.kinds.tenant_quota import TENANT_QUOTAS
from fathom.model.errors import ApiError
from fathom.model.objects import Obj, metadata
from fathom.model.view import View

EVERY_S = 2.0


class TenantController:
    def __init__(self, *, client: LocalClient, view: View, status: Mend) -> None:
        self._client = client
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
        try:
            await self._client.call("PUT", path, body={**quota, "metadata": meta, "status": status})
        except ApiError as error:
            if error.code not in {404, 409}:  # The quota is gone, or another server was faster: next time.
                raise
