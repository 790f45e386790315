"""Whether fathom's processes still run, by their leases in fathom-system.

As candidates for a lease do, this measures on its own clock for how long a lease has not changed: no process
trusts another's clock.
"""

from __future__ import annotations

from fathom.client.api import Api
from fathom.control.lease import Sighting, epoch_of, is_free, sighted
from fathom.kinds.override_status import ComponentLease
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.errors import ApiError
from fathom.model.objects import key_of
from fathom.model.resources import LEASES
from fathom.seams.loop_clock import loop_now_ns

ASK_EVERY_S = 2.0  # Leases are renewed as often; all overrides share one answer.


class ComponentLeases:
    def __init__(self, api: Api, *, ask_every_s: float = ASK_EVERY_S, silent_s_min: float = 0.0) -> None:
        """A lease counts as held until it was not renewed for longer than it lasts, and than this."""
        self._api = api
        self._ask_every_s = ask_every_s
        self._silent_s_min = silent_s_min
        self._sightings: dict[str, Sighting] = {}
        self._leases: tuple[ComponentLease, ...] = ()
        self._asked_ns: int | None = None

    async def fetch(self) -> tuple[ComponentLease, ...]:
        """The leases of fathom-system. Empty if the server does not answer: then nobody is called lost."""
        now_ns = loop_now_ns()
        if self._asked_ns is not None and now_ns - self._asked_ns < self._ask_every_s * 1e9:
            return self._leases
        try:
            page = await self._api.list_page(LEASES, SYSTEM_NAMESPACE, limit=0)
        except ApiError:
            self._sightings, self._leases = {}, ()
            return ()
        self._asked_ns, now_ns = now_ns, loop_now_ns()
        self._sightings = {
            key_of(lease).name: sighted(self._sightings.get(key_of(lease).name), lease, now_ns=now_ns)
            for lease in page.items
        }
        self._leases = tuple(
            ComponentLease(
                key_of(lease).name,
                epoch_of(lease) or 0,
                not is_free(
                    self._sightings[key_of(lease).name], duration_s=self._silent_s_min, now_ns=now_ns
                ),
            )
            for lease in page.items
        )
        return self._leases
