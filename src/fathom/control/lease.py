"""Leader election on a Lease, and a fence around what a leader writes.

No process trusts another's clock. A candidate measures on its own clock how long the lease has *not changed*,
and takes it when that is longer than its duration. A holder counts from when it *sent* its last renewal, and
stops writing well before candidates may take over:

    sent ├────────── may write ──────────┤ renew deadline, 10 s
         └─ committed ├───── unchanged, as candidates see it ───────┤ 15 s: may be taken

Two processes may still believe that they lead: one was paused between its look at the clock and its write, or
its clock stands still. So on fathom every write names the epoch that its writer holds, and the server commits
none from an older epoch (see `api/admission/fences.py`). Other Kubernetes servers give no epoch, and then
none is named.

Each term has an identity of its own, so a lease that is lost and won again is another epoch: a write sent in
the first term does not commit in the second.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec

from fathom.client.api import Api, Transport, object_in
from fathom.client.outcomes import Committed, Conflict, Outcome, Rejected, Unknown, causes_in
from fathom.model.errors import ApiError
from fathom.model.objects import Key, Obj, lookup, metadata
from fathom.model.reasons import FENCED
from fathom.model.resources import LEASES
from fathom.model.times import micro_timestamp
from fathom.model.well_known import EPOCH_ANNOTATION, FENCE_HEADER
from fathom.seams.loop_clock import loop_now_ns
from fathom.seams.outside import Clock, Ids
from fathom.seams.seam import Ask, Reply, Stream

NOT_LEADER = "NotLeader"

# client-go's: candidates do not ask in step.
JITTER = 0.2
# A client that touches the lease all the time cannot make its holder lose it.
RENEWALS_IN_A_ROW = 5


class Timing(msgspec.Struct, frozen=True):
    """client-go's defaults."""

    duration_s: int = 15
    renew_deadline_s: float = 10.0
    retry_s: float = 2.0

    def __post_init__(self) -> None:
        if not self.duration_s > self.renew_deadline_s > self.retry_s * (1 + JITTER) > 0:
            raise ValueError(f"a lease needs duration > renew deadline > retry > 0: {self}")

    @property
    def request_s(self) -> float:
        """Short enough that a renewal that hangs leaves time for another."""
        return self.renew_deadline_s / 4


class Sighting(msgspec.Struct, frozen=True):
    """The lease as it last changed, and when we saw that, on our own clock."""

    spec: Obj
    at_ns: int


def sighted(before: Sighting | None, lease: Obj, *, now_ns: int) -> Sighting:
    spec = lease.get("spec") or {}
    return before if before is not None and before.spec == spec else Sighting(spec, now_ns)


def is_free(seen: Sighting, *, duration_s: float, now_ns: int) -> bool:
    """Without a holder, or unchanged for longer than it lasts, by its own duration and by ours."""
    if not seen.spec.get("holderIdentity"):
        return True
    lasts_s = max(duration_s, float(seen.spec.get("leaseDurationSeconds") or 0))
    return now_ns - seen.at_ns >= lasts_s * 1e9


def taken_over(lease: Obj | None, key: Key, *, holder: str, duration_s: int, now: str) -> Obj:
    """The lease with a new holder. Keeps the revision it was read at, so a race has one winner."""
    lease = lease or {
        "kind": "Lease",
        "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"namespace": key.namespace, "name": key.name},
    }
    spec = lease.get("spec") or {}
    changed = bool(spec) and spec.get("holderIdentity") != holder
    return {
        **lease,
        "spec": {
            **spec,
            "holderIdentity": holder,
            "leaseDurationSeconds": duration_s,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": int(spec.get("leaseTransitions") or 0) + changed,
        },
    }


def epoch_of(lease: Obj) -> int | None:
    """None on a server without fences."""
    text = lookup(lease, "metadata", "annotations", EPOCH_ANNOTATION)
    return int(text) if isinstance(text, str) and text.isdigit() else None


class LeaderTerm:
    """One term of holding the lease. Every write checks `holds` first; once False it stays False."""

    def __init__(self, key: Key, identity: str, lease: Obj, until_ns: int) -> None:
        self.key = key
        self.identity = identity
        self.epoch = epoch_of(lease)
        # The store's revision when the term began: writes of earlier terms are older, since the fence moved
        # in that commit. None without fences: then nothing keeps a late write out.
        revision = int(metadata(lease).get("resourceVersion") or 0)
        self.floor = revision if revision and self.epoch is not None else None
        self.lease = lease  # As last read or written: its revision is the next renewal's precondition.
        self.until_ns = until_ns  # Moves with every renewal that is known to have succeeded.
        self.ended = ""  # Why it ended; '' while it goes on.

    def holds(self) -> bool:
        return not self.ended and loop_now_ns() < self.until_ns

    def end(self, why: str) -> None:
        self.ended = self.ended or why

    @property
    def fence(self) -> str | None:
        return None if self.epoch is None else f"{self.key.namespace}/{self.key.name}/{self.epoch}"


class LeaseStatus(msgspec.Struct, frozen=True):
    """For people, metrics and the journal."""

    lease: Key
    identity: str
    state: Literal["standby", "leading", "lost", "released"]
    epoch: int | None = None
    why: str = ""


class Elector:
    def __init__(
        self,
        api: Api,
        key: Key,
        *,
        identity_prefix: str,
        clock: Clock,
        ids: Ids,
        rng: random.Random,
        timing: Timing = Timing(),  # noqa: B008  # Frozen.
        on_change: Callable[[LeaseStatus], None] = lambda lease_status: None,
    ) -> None:
        self._api = api
        self._key = key
        self._identity_prefix = identity_prefix
        self._clock = clock
        self._ids = ids
        self._rng = rng
        self._timing = timing
        self._on_change = on_change
        self._last_stamp = ""  # The last timestamp that we wrote into the lease.

    async def campaign(self, predecessor: str = "") -> LeaderTerm:
        """Waits until we hold the lease. `predecessor`: a holder known to have stopped; its lease is free."""
        identity = f"{self._identity_prefix}_{self._ids.uid()}"
        self._on_change(LeaseStatus(self._key, identity, "standby"))
        seen: Sighting | None = None
        refused = ""
        while True:
            lease = await self._read()
            now_ns = loop_now_ns()
            if isinstance(lease, Unknown):
                if lease.cause != refused:
                    refused = lease.cause
                    self._on_change(LeaseStatus(self._key, identity, "standby", why=refused))
            else:
                seen = None if lease is None else sighted(seen, lease, now_ns=now_ns)
                # Ours already: the answer to an earlier try was lost. Take it again, as its start is unknown.
                ours = seen is not None and seen.spec.get("holderIdentity") in {
                    identity,
                    predecessor or identity,
                }
                if seen is None or ours or is_free(seen, duration_s=self._timing.duration_s, now_ns=now_ns):
                    outcome = await self._take(lease, identity)
                    if isinstance(outcome, Committed):
                        return self._begin(identity, outcome.obj, now_ns)
                    if isinstance(outcome, Rejected) and outcome.message != refused:
                        refused = outcome.message
                        self._on_change(LeaseStatus(self._key, identity, "standby", why=refused))
            await asyncio.sleep(self._timing.retry_s * (1 + JITTER * self._rng.random()))

    async def keep(self, term: LeaderTerm) -> str:
        """Renews the lease until it is lost; returns why."""
        last = ""
        while True:
            left_s = (term.until_ns - loop_now_ns()) / 1e9
            await asyncio.sleep(max(0.0, min(self._timing.retry_s, left_s)))
            if not term.holds():
                term.end(f"not renewed within {self._timing.renew_deadline_s:g} s{last and ': ' + last}")
                break
            last = await self._renew(term)
            if term.ended:
                break
        self._on_change(LeaseStatus(self._key, term.identity, "lost", term.epoch, term.ended))
        return term.ended

    async def release(self, term: LeaderTerm) -> bool:
        """Gives the lease up, only when no write of this term is under way. Candidates then need not wait."""
        if not term.holds():
            return False
        term.end("released")
        now = self._next_time()
        spec = {**term.lease["spec"], "leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now}
        spec.pop("holderIdentity", None)  # As client-go does: newer servers accept no empty one.
        outcome = await self._write(
            self._api.update(LEASES, self._key.namespace, {**term.lease, "spec": spec})
        )
        self._on_change(LeaseStatus(self._key, term.identity, "released", term.epoch))
        return isinstance(outcome, Committed)

    def _begin(self, identity: str, lease: Obj, sent_ns: int) -> LeaderTerm:
        term = LeaderTerm(self._key, identity, lease, sent_ns + round(self._timing.renew_deadline_s * 1e9))
        self._on_change(LeaseStatus(self._key, identity, "leading", term.epoch))
        return term

    async def _take(self, lease: Obj | None, identity: str) -> Outcome:
        namespace = self._key.namespace
        wanted = taken_over(
            lease, self._key, holder=identity, duration_s=self._timing.duration_s, now=self._next_time()
        )
        if lease is None:
            return await self._write(self._api.create(LEASES, namespace, wanted))
        return await self._write(self._api.update(LEASES, namespace, wanted))

    async def _renew(self, term: LeaderTerm) -> str:
        """Renews once. Returns what went wrong, if anything; `term` shows whether that ended it."""
        why = ""
        for _ in range(RENEWALS_IN_A_ROW):
            sent_ns, now = loop_now_ns(), self._next_time()
            wanted = {**term.lease, "spec": {**term.lease["spec"], "renewTime": now}}
            outcome = await self._write(self._api.update(LEASES, self._key.namespace, wanted))
            if isinstance(outcome, Rejected) and outcome.code != 404:
                return outcome.message
            lease = outcome.obj if isinstance(outcome, Committed) else await self._read()
            if isinstance(lease, Unknown):
                return lease.cause
            if lease is None or _holder(lease) != term.identity:
                reason = (
                    "the lease was deleted" if lease is None else f"taken by {_holder(lease) or 'nobody'}"
                )
                term.end(reason)
                return reason
            term.lease = lease
            if lookup(lease, "spec", "renewTime") == now:
                term.until_ns = sent_ns + round(self._timing.renew_deadline_s * 1e9)
                return ""
            # Still ours, but this renewal was lost, or another client changed the lease: retry from there.
            why = outcome.why if isinstance(outcome, Conflict) else "the renewal was not stored"
        return why

    async def _read(self) -> Obj | Unknown | None:
        try:
            async with asyncio.timeout(self._timing.request_s):
                return await self._api.get(LEASES, self._key.namespace, self._key.name)
        except (ApiError, TimeoutError) as error:
            return Unknown(str(error) or "no answer in time")

    async def _write(self, write: Awaitable[Outcome]) -> Outcome:
        try:
            async with asyncio.timeout(self._timing.request_s):
                return await write
        except TimeoutError:
            return Unknown("no answer in time")

    def _next_time(self) -> str:
        """Never the same twice: candidates would not see a renewal that changes nothing, and a wall clock may
        stand still."""
        now_ns = self._clock.now_ns()
        while (stamp := micro_timestamp(now_ns)) == self._last_stamp:
            now_ns += 1000
        self._last_stamp = stamp
        return stamp


class Fenced:
    """A transport for one term's writes: each names its epoch; none is sent once the lease may be lost."""

    def __init__(self, inner: Transport, term: LeaderTerm) -> None:
        self._inner = inner
        self._term = term

    async def request(self, ask: Ask, *, timeout_s: float) -> Reply:
        if ask.method == "GET":
            return await self._inner.request(ask, timeout_s=timeout_s)
        term = self._term
        if not term.holds():
            return _not_leader(term)
        if term.fence is not None:
            ask = msgspec.structs.replace(ask, headers=(*ask.headers, (FENCE_HEADER, term.fence)))
        reply = await self._inner.request(ask, timeout_s=timeout_s)
        if reply.status == 409 and _is_fenced(reply):
            term.end(f"fenced: epoch {term.epoch} is over")
        return reply

    async def open(self, ask: Ask, *, timeout_s: float) -> Stream | Reply:
        return await self._inner.open(ask, timeout_s=timeout_s)


def _not_leader(term: LeaderTerm) -> Reply:
    why = term.ended or "it was not renewed in time"
    message = f"not sent: lease {term.key.namespace}/{term.key.name} may be lost: {why}"
    return Reply(403, {"kind": "Status", "status": "Failure", "reason": NOT_LEADER, "message": message})


def _is_fenced(reply: Reply) -> bool:
    return FENCED in causes_in(object_in(reply.body))


def _holder(lease: Obj) -> str:
    return str(lookup(lease, "spec", "holderIdentity") or "")
