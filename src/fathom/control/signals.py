"""Publishes what a component of the control plane notices about itself, as a ComponentSignals object.

Other components and people read it: `kubectl get componentsignals`. It is written when a signal is raised or
cleared, at most once every few seconds. Each write names the revision that was read: one that arrives late
changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from fathom.client.api import Api
from fathom.client.outcomes import Committed, Outcome
from fathom.control.decision_log import DecisionLog, subject_at
from fathom.control.watches import own
from fathom.kinds import component_signals
from fathom.model.cause import WakeCause
from fathom.model.errors import ApiError
from fathom.model.objects import Key, Obj, lookup, metadata
from fathom.model.times import timestamp
from fathom.seams.outside import Clock

COMPONENT_SIGNALS = own(component_signals.DEFINITION)
EVERY_S = 5.0


class SignalPublisher:
    """`raised`: signal -> message, for the signals that are raised now."""

    def __init__(
        self,
        api: Api,
        component: str,
        raised: Callable[[], Mapping[str, str]],
        *,
        clock: Clock,
        decisions: DecisionLog,
    ) -> None:
        self._api = api
        self._component = component
        self._raised = raised
        self._clock = clock
        self._decisions = decisions
        self._written: dict[str, str] | None = None  # As last written; None: not known.

    async def run(self) -> None:
        """Runs for ever. A write that fails is repeated the next time."""
        while True:
            raised = dict(self._raised())
            if raised != self._written and (
                raised or self._written is not None or await self._has_outdated_signals()
            ):
                self._written = raised if await self._write(raised) else None
            await asyncio.sleep(EVERY_S)

    async def _has_outdated_signals(self) -> bool:
        """Whether an earlier term left outdated signals. A healthy component creates no object."""
        try:
            obj = await self._api.get(COMPONENT_SIGNALS.resource, "", self._component)
        except ApiError:
            return False
        if obj is None or not raised_of(obj):
            self._written = {}
        return obj is not None and bool(raised_of(obj))

    async def _write(self, raised: Mapping[str, str]) -> bool:
        try:
            before = await self._api.get(COMPONENT_SIGNALS.resource, "", self._component)
        except ApiError:
            return False
        now = timestamp(self._clock.now_ns())
        signals = [
            {"name": name, "message": message, "since": now} for name, message in sorted(raised.items())
        ]
        status = {"status": {"observedAt": now, "signals": signals}}
        resource = COMPONENT_SIGNALS.resource
        subject = subject_at(resource, Key("", self._component))
        why = "; ".join(f"{name}: {message}" for name, message in sorted(raised.items())) or "all is well"
        cause = WakeCause("timer", f"every {EVERY_S:g} s")
        id_ = self._decisions.decided("status", subject, cause=cause, why=why)
        outcome = await self._patched(self._api.with_decision(id_), before, status)
        self._decisions.concluded(id_, outcome, subject)
        return isinstance(outcome, Committed)

    async def _patched(self, api: Api, before: Obj | None, status: Obj) -> Outcome:
        if before is None:
            obj = {
                "apiVersion": COMPONENT_SIGNALS.api_version,
                "kind": COMPONENT_SIGNALS.name,
                "metadata": {"name": self._component},
            }
            created = await api.create(COMPONENT_SIGNALS.resource, "", obj)
            if not isinstance(created, Committed):
                return created
            before = created.obj
        guard = {"resourceVersion": metadata(before).get("resourceVersion")}
        return await api.patch(
            COMPONENT_SIGNALS.resource,
            "",
            self._component,
            {"metadata": guard, **status},
            subresource="status",
        )


def raised_of(obj: Obj) -> dict[str, str]:
    """Signal -> message, as the object has them."""
    signals = lookup(obj, "status", "signals") or ()
    return {
        str(signal.get("name")): str(signal.get("message") or "")
        for signal in signals
        if isinstance(signal, dict)
    }


def component_of(obj: Obj) -> str:
    return str(metadata(obj).get("name"))
