"""What the members of an etcd say about themselves: alarms, and whether they agree. For `readyz`.

There is no task that watches them: whoever asks for the problem starts the next look, at most every LOOK_S.
An etcd that is full is looked at before each commit, at most every FULL_LOOK_S, so that commits go on at once
when an operator has disarmed the alarm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import grpc
import grpc.aio
import msgspec
from aetcd.rpc import rpc_pb2

from fathom.store.etcd_link import EtcdLink, Stubs
from fathom.store.protocol import StoreUnavailable

LOOK_S = 2.0
FULL_LOOK_S = 1.0
# A member's revision and its raft index are read one after the other, so under load they may not fit
# together. Only the same difference, several times in a row, is a disagreement.
DISAGREE_LOOKS = 3

FULL = (
    "etcd has no space left (alarm NOSPACE), so it refuses writes: compact and defragment its members, or"
    " raise their quota, then run `etcdctl alarm disarm`"
)
CORRUPT = (
    "members of etcd disagree (alarm CORRUPT): replace the member that etcd names, then disarm the alarm"
)
SILENT = "no member of etcd answers"
NO_LEADER = "etcd has no leader: most of its members are away"
STRANGERS = "the endpoints of etcd belong to different clusters: name the members of one"


class MemberStatus(msgspec.Struct, frozen=True):
    cluster: int
    revision: int
    applied: int  # How far in the raft log: members at the same place have the same revision.
    alarms: tuple[str, ...]
    has_leader: bool = True


class Disagreement(msgspec.Struct, frozen=True):
    """Revisions of members that have applied the same entries."""

    revisions: tuple[int, ...]

    @property
    def gap(self) -> int:
        return self.revisions[-1] - self.revisions[0]

    def text(self) -> str:
        revisions = " and ".join(map(str, self.revisions))
        return (
            f"members of etcd disagree: after the same raft entries they are at revisions {revisions};"
            " replace the one that is wrong"
        )


def alarm_problem(statuses: Sequence[MemberStatus]) -> str:
    """`statuses`: of the members that answer."""
    if not statuses:
        return SILENT
    alarms = " ".join(alarm for status in statuses for alarm in status.alarms)
    if "CORRUPT" in alarms:
        return CORRUPT
    if "NOSPACE" in alarms:
        return FULL
    if not any(status.has_leader for status in statuses):
        return NO_LEADER
    return STRANGERS if len({status.cluster for status in statuses}) > 1 else ""


def disagreement(statuses: Sequence[MemberStatus]) -> Disagreement | None:
    by_place: dict[tuple[int, int], set[int]] = {}
    for status in statuses:
        by_place.setdefault((status.cluster, status.applied), set()).add(status.revision)
    for revisions in by_place.values():
        if len(revisions) > 1:
            return Disagreement(tuple(sorted(revisions)))
    return None


class EtcdMembers:
    def __init__(self, link: EtcdLink, agree_again: Callable[[], None]) -> None:
        """`agree_again` is called when a disagreement is over: what was read meanwhile may be wrong."""
        self._link = link
        self._agree_again = agree_again
        self._alarm = ""
        self._gaps: list[int] = []  # Of the last looks, while they disagreed.
        self._disagreement = ""
        self._looked_s = float("-inf")
        self._looking: asyncio.Task[None] | None = None

    def problem(self) -> str:
        self._look_soon(LOOK_S)
        return self._alarm or self._disagreement

    def refused_for_space(self) -> None:
        """Believed for a moment without a look: etcd raises its alarm just after the first refusal."""
        self._alarm, self._looked_s = FULL, asyncio.get_running_loop().time()

    async def check_room(self) -> None:
        """Raises StoreUnavailable while etcd is full: nothing is sent then. The first commit beyond the quota
        is carried out and answered with an error, so that only what was not sent was certainly not done."""
        if self._alarm != FULL:
            return
        self._look_soon(FULL_LOOK_S)
        if self._looking is not None:
            await asyncio.shield(self._looking)
        if self._alarm == FULL:
            raise StoreUnavailable(FULL)

    def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()

    def _look_soon(self, every_s: float) -> None:
        loop = asyncio.get_running_loop()
        if (self._looking is None or self._looking.done()) and loop.time() - self._looked_s >= every_s:
            self._looked_s = loop.time()
            self._looking = loop.create_task(self.look())

    async def look(self) -> None:
        answers = await asyncio.gather(*map(self._status, self._link.options.endpoints))
        statuses = [status for status in answers if status is not None]
        self._alarm = alarm_problem(statuses)
        if statuses:  # Else nothing is known about whether they agree.
            self._note(disagreement(statuses))

    def _note(self, disagreement: Disagreement | None) -> None:
        if disagreement is None:
            self._gaps = []
            if self._disagreement:
                self._disagreement = ""
                self._agree_again()
            return
        self._gaps = [*self._gaps, disagreement.gap][-DISAGREE_LOOKS:]
        if self._gaps == [disagreement.gap] * DISAGREE_LOOKS:
            self._disagreement = disagreement.text()

    async def _status(self, endpoint: str) -> MemberStatus | None:
        try:
            stubs: Stubs = self._link.stubs_of(endpoint)
            status = await self._link.call(stubs, stubs.maintenance.Status, rpc_pb2.StatusRequest())
        except (grpc.aio.AioRpcError, StoreUnavailable):
            return None
        header = status.header
        return MemberStatus(
            header.cluster_id,
            header.revision,
            status.raftAppliedIndex,
            tuple(status.errors),
            has_leader=status.leader != 0,
        )
