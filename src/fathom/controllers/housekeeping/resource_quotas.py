"""Recounts ResourceQuotas now and then.

Every write that changes a sum also writes the quota, so there should be nothing to correct; but a server that
crashes after it has stored a new quota leaves it uncounted until the next such write.
"""

from __future__ import annotations

from collections.abc import Callable

from fathom.controllers.housekeeping.writer import HousekeepingWriter, ignored
from fathom.model.cause import WakeCause
from fathom.model.decision import Subject
from fathom.model.objects import Obj, key_of, metadata, uid_of
from fathom.model.view import View

RESOURCE = "resourcequotas"
EVERY_S = 60.0
TIMER = WakeCause("timer", f"every {EVERY_S:g} s")

# (quota, view) -> the status by a recount, or None if the stored one is right
Mend = Callable[[Obj, View], Obj | None]


class QuotaController:
    def __init__(self, *, writer: HousekeepingWriter, view: View, mend: Mend) -> None:
        self._writer = writer
        self._view = view
        self._mend = mend

    async def recount(self) -> None:
        for seen in list(self._view.list(RESOURCE)):
            status = self._mend(seen.obj, self._view)
            if status is not None:
                await self._write(seen.obj, seen.revision, status)

    async def _write(self, quota: Obj, revision: int, status: Obj) -> None:
        """Names the revision that was counted at: a quota that was charged since is recounted later."""
        namespace, name = key_of(quota)
        meta = {**metadata(quota), "resourceVersion": str(revision)}
        path = f"/api/v1/namespaces/{namespace}/resourcequotas/{name}/status"
        subject = Subject(RESOURCE, namespace, name, uid_of(quota))
        body, why = {**quota, "metadata": meta, "status": status}, "a recount found another sum"
        with ignored(404, 409):
            await self._writer.write("PUT", path, subject, cause=TIMER, why=why, body=body)
