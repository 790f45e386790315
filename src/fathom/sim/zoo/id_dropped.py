"""The id of a decision is dropped on one path: the scheduler evicts the victims of a preemption and does not
name the decision. The audit log shows who deleted a pod, and no record says why."""

from __future__ import annotations

from typing import Any

from fathom.schedule.loop.preemption import PreemptionLoop
from fathom.sim.zoo import put_back

SCENARIOS = ("preemption",)
BREAKS = "every write has its decision"

_right = PreemptionLoop._evict_and_reserve


class _Undecided:
    """The API, but writes name no decision."""

    def __init__(self, api: Any) -> None:
        self._api = api

    def with_decision(self, id_: str) -> Any:
        return self._api


async def without_its_id(self: Any, *args: Any) -> None:
    named, self._api = self._api, _Undecided(self._api)
    try:
        await _right(self, *args)
    finally:
        self._api = named


put_back(PreemptionLoop, "_evict_and_reserve", without_its_id)
