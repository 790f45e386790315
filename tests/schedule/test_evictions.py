"""Victims of a preemption, evicted at a real API server: what is said of each is what became of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.api.binding.cluster import NODES, PODS, node, pod
from tests.api.harness import Api as Server
from tests.api.harness import tell
from tests.steer.served import ServedTransport

from fathom.client.api import Api
from fathom.model.conditions import is_true
from fathom.model.objects import Key, Obj, uid_of
from fathom.schedule.decide.preempt import Preemption, Victim
from fathom.schedule.loop.evictions import carry_out
from fathom.seams.seam import Ask, Reply

NOW = "2027-01-15T08:00:00Z"
IN_CONFLICT = Reply(409, b'{"kind":"Status","code":409,"reason":"Conflict","message":"others wrote"}')


class DeletesInConflict(ServedTransport):
    """The first deletes lose a race against others who write."""

    def __init__(self, server: Server, times: int) -> None:
        super().__init__(server)
        self._times = times

    async def request(self, ask: Ask, *, timeout_s: float) -> Reply:
        if ask.method == "DELETE" and self._times:
            self._times -= 1
            return IN_CONFLICT
        return await super().request(ask, timeout_s=timeout_s)


@pytest.mark.parametrize(
    ("conflicts", "outcome", "stays"),
    [(0, "evicted", False), (1, "evicted", False), (9, "others wrote", True)],
)
def test_a_victim_whose_delete_meets_a_conflict_is_not_taken_for_gone(
    conflicts: int, outcome: str, stays: bool, tmp_path: Path
) -> None:
    async def story(server: Server) -> None:
        await server.post(NODES, node("n1"))
        victim, urgent = [(await server.post(PODS, pod(name))).obj for name in ("victim", "urgent")]
        api = Api(DeletesInConflict(server, conflicts))
        preemption = Preemption("n1", (Victim(Key("default", "victim"), uid_of(victim), 0, "preempted"),))

        def find(key: Key) -> Obj | None:
            return dict(victim)

        [evicted] = await carry_out(
            api,
            Key("default", "urgent"),
            uid_of(urgent),
            preemption,
            find=find,
            waits=lambda: True,
            now=lambda: NOW,
        )
        assert evicted.outcome == outcome
        left = await server.get(f"{PODS}/victim")
        assert (left.status == 200) == stays
        if stays:
            assert not is_true(left.obj, "DisruptionTarget")

    tell(story, tmp_path)
