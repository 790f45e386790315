"""Says of overrides that nobody is left who carries them out.

Controllers and schedulers say it of each other. Where none of them runs any more, as when they share a
process that has stopped, only the API server can. When they are back, the override controller writes the
condition again.
"""

from __future__ import annotations

import msgspec

from fathom.control.lease import Sighting, is_free, sighted
from fathom.controllers.housekeeping.writer import HousekeepingWriter, ignored
from fathom.kinds.override_changes import SCHEDULER
from fathom.kinds.override_status import CONTROLLERS_LEASE, degraded_without_anybody, is_controller
from fathom.kinds.scheduler_override import OVERRIDES
from fathom.kinds.shape import API_VERSION
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.cause import WakeCause
from fathom.model.decision import Subject
from fathom.model.objects import Obj, key_of, uid_of
from fathom.model.resources import LEASES
from fathom.model.times import timestamp
from fathom.model.view import Seen, View
from fathom.seams.outside import Clock

EVERY_S = 5.0
# Twice as long as a lease lasts: a restart by the supervisor is not called a stop.
SILENT_S_MIN = 30.0
TIMER = WakeCause("timer", f"every {EVERY_S:g} s")
WHY = "neither controllers nor a scheduler renew their lease"


class StoppedAcknowledgers:
    def __init__(self, *, writer: HousekeepingWriter, view: View, clock: Clock) -> None:
        self._writer = writer
        self._view = view
        self._clock = clock
        self._sightings: dict[str, Sighting] = {}  # Lease -> as it last changed, by our own clock.

    async def report(self) -> None:
        overrides = list(self._view.list(OVERRIDES))
        if not overrides or not self._all_stopped():
            return
        now_ns = self._clock.now_ns()
        for seen in overrides:
            try:
                conditions = degraded_without_anybody(seen.obj, now=timestamp(now_ns), now_ns=now_ns)
            except msgspec.ValidationError:
                continue  # No fathom server stores one; nobody acts on it.
            if conditions is not None:
                await self._write(seen, {"conditions": conditions})

    def _all_stopped(self) -> bool:
        """Without any lease nobody has stopped: nobody has begun."""
        now_ns, leases = self._clock.monotonic_ns(), self._leases()
        self._sightings = {
            name: sighted(self._sightings.get(name), lease, now_ns=now_ns) for name, lease in leases.items()
        }
        return bool(leases) and all(
            is_free(seen, duration_s=SILENT_S_MIN, now_ns=now_ns) for seen in self._sightings.values()
        )

    def _leases(self) -> dict[str, Obj]:
        named = {key_of(seen.obj).name: seen.obj for seen in self._view.list(LEASES.name, SYSTEM_NAMESPACE)}
        return {
            name: lease
            for name, lease in named.items()
            if name == CONTROLLERS_LEASE or is_controller(name, SCHEDULER)
        }

    async def _write(self, seen: Seen, status: Obj) -> None:
        namespace, name = key_of(seen.obj)
        path = f"/apis/{API_VERSION}/namespaces/{namespace}/scheduleroverrides/{name}/status"
        body = {"metadata": {"resourceVersion": str(seen.revision)}, "status": status}
        subject = Subject(OVERRIDES, namespace, name, uid_of(seen.obj))
        with ignored(404, 409):  # It is gone, or somebody else was faster: next time.
            await self._writer.write(
                "PATCH", path, subject, cause=TIMER, why=WHY, body=body,
                content_type="application/merge-patch+json",
            )  # fmt: skip
