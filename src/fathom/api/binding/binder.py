"""Queues and transactions of binding: one commit at a time per tenant, with many pods in it.

    ask ──> its tenant's queue ──> check each on the cache ──> one commit of all that passed ──> answers
                   ^                                               │ Conflict: another write came first
                   └───────── checked again on the current state <─┘ (at most RACES_MAX times)

Every bind writes its tenant's account, so this server runs at most one transaction per tenant at a time;
binds that arrive meanwhile wait and share the next one. A bind that fails a check is dropped, the rest
continue. Other servers on the same store show up as lost races: no object that the checks read may have
changed.

A refusal must not come from a stale cache: where other servers write to the store too, the cache is brought
up to date and the bind is checked once more before it is refused.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from fathom.api.admission.attempt import UPDATE, Charge, WriteAttempt
from fathom.api.admission.quota import given_back
from fathom.api.binding.checks import BindingMoment, PlacedPod, judge
from fathom.api.binding.facts import BindingFacts
from fathom.api.binding.pending import Pending
from fathom.api.binding.requests import (
    Answer,
    BindingAsk,
    BindingDone,
    BindingFailed,
    BindingUnknown,
    Refusal,
)
from fathom.api.core import Core
from fathom.api.ledger.accounts import TENANT_BOOKS, Books, tenant_key
from fathom.api.request import Caller
from fathom.kube.definitions.kind import Kind
from fathom.model import binding_checks
from fathom.model.body import Body
from fathom.model.errors import ApiError, refused_by_store, unavailable
from fathom.model.objects import Key, Obj, uid_of
from fathom.model.tenancy import tenant_of
from fathom.model.times import timestamp
from fathom.store.protocol import (
    BadCommit,
    Committed,
    Conflict,
    Entry,
    Expect,
    Put,
    StoreUnavailable,
    Unknown,
    Write,
)

RACES_MAX = 5  # How often a lost race is retried.

ASIDE_S = 0.004  # About the time of checking and committing on etcd.
POLITE_TURNS = 8

# Pods in one commit: enough to share a disk's sync, few enough that checking them blocks nothing for long.
TOGETHER_MAX = 128

# Preconditions of one commit: etcd accepts a hundred operations.
EXPECTS_MAX = 96
EXPECTS_PER_ASK = 12  # Pod, node, two accounts, quota, and what policies, overrides and reservations add.


class _Job:
    """One requested bind in progress."""

    __slots__ = ("answer", "ask", "caller", "confirmed", "decoded", "dry_run", "races")

    def __init__(self, ask: BindingAsk, caller: Caller, *, dry_run: bool) -> None:
        self.ask = ask
        self.caller = caller
        self.dry_run = dry_run
        self.races = 0
        self.confirmed = False  # Checked on a cache that was brought up to date after the bind was requested.
        self.decoded: tuple[int, Obj] | None = None  # The pod at a revision, so that it is decoded only once.
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()


class _Round(msgspec.Struct):
    """One transaction being assembled."""

    books: Books
    at: BindingMoment
    jobs: list[tuple[_Job, PlacedPod]]
    expects: dict[str, Expect]
    writes: dict[str, Write]


class _Done(msgspec.Struct, frozen=True):
    together: int = TOGETHER_MAX  # How many pods the next transaction may hold.
    revision: int = 0  # The committed revision; 0 if nothing was committed.


class Binder:
    """Runs the binds of one server."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._kind: Kind | None = core.registry.by_resource("pods")
        self._facts = BindingFacts(core.cache)
        # Tenant -> waiting binds. A tenant has an entry while its task, in `_turns`, runs.
        self._waiting: dict[str, deque[_Job]] = {}
        self._turns: dict[str, asyncio.Task[None]] = {}
        self._own: dict[str, int] = {}  # Tenant -> the revision at which we last wrote its account.
        self._polite: dict[str, int] = {}  # Tenant -> after how many more commits other servers go first.

    async def bind(
        self, asks: Sequence[BindingAsk], caller: Caller, *, dry_run: bool = False
    ) -> list[Answer]:
        """Bind all; the answers are in the order of the asks."""
        jobs = [_Job(ask, caller, dry_run=dry_run) for ask in asks]
        for job in jobs:
            tenant = self._tenant(job)
            self._waiting.setdefault(tenant, deque()).append(job)
            if tenant not in self._turns:
                self._turns[tenant] = asyncio.get_running_loop().create_task(self._turn(tenant))
        return list(await asyncio.gather(*(job.answer for job in jobs)))

    def _tenant(self, job: _Job) -> str:
        """The tenant in whose queue the bind waits. The account it is charged to is decided later, on the
        state then."""
        entry = self._entry(job.ask)
        pod = (
            self._decoded(job, entry) if entry is not None else {"metadata": {"namespace": job.ask.namespace}}
        )
        return tenant_of(pod, self._facts.namespace(job.ask.namespace))

    async def _turn(self, tenant: str) -> None:
        queue, together = self._waiting[tenant], TOGETHER_MAX
        try:
            while queue:
                async with self._core.lanes.hold((tenant_key(tenant),)):
                    self._look_for_rivals(tenant)
                    done = await self._transact(queue, together)
                    together = done.together
                    if done.revision:
                        self._own[tenant] = done.revision
                        await self._stand_aside(tenant)
        except Exception as error:  # Whatever the error, every waiting bind must be answered.
            self._fail(queue, error)
        finally:
            del self._waiting[tenant], self._turns[tenant]

    def _fail(self, jobs: Iterable[_Job], error: Exception) -> None:
        for job in jobs:
            if not job.answer.done():
                job.answer.set_exception(error)

    # One transaction.

    async def _transact(self, queue: deque[_Job], together: int) -> _Done:
        transaction, behind = self._judged(queue, together)
        done = _Done(together)
        try:
            if transaction.jobs:
                done = await self._settle(queue, transaction)
            if behind:
                await self._catch_up(behind)
                queue.extendleft(reversed(behind))
        except Exception as error:
            self._fail([*behind, *(job for job, _ in transaction.jobs)], error)
            raise
        return done

    async def _settle(self, queue: deque[_Job], transaction: _Round) -> _Done:
        try:
            outcome = await self._commit(transaction)
        except BadCommit as error:
            return self._too_large(queue, transaction, error)
        except StoreUnavailable as error:
            failure = unavailable(f"the store cannot be used now: {error}")
            self._answer_all(transaction, BindingFailed(failure))
            return _Done()
        if isinstance(outcome, Conflict):
            self._core.counts.commits_retried += 1
            await self._core.wait_for(outcome.revision)
            self._requeue(queue, transaction)
        elif isinstance(outcome, Unknown):
            why = f"the outcome of the write is unknown ({outcome.cause}): read the pod before trying again"
            self._answer_all(transaction, BindingUnknown(why))
        else:
            await self._core.cache.at_least(outcome.revision)
            for job, placed in transaction.jobs:
                _answer(job, BindingDone(outcome.revision, uid_of(placed.pod)))
            return _Done(revision=outcome.revision)
        return _Done()

    async def _commit(self, transaction: _Round) -> Committed | Conflict | Unknown:
        charge = transaction.books.charge()
        expects = {**transaction.expects, **{expect.key: expect for expect in charge.preconditions}}
        writes = [*transaction.writes.values(), *charge.writes]
        try:
            outcome = await self._core.store.commit(tuple(expects.values()), writes)
        except StoreUnavailable:
            self._core.health.failed()
            raise
        self._core.health.saw(outcome)
        return outcome

    def _judged(self, queue: deque[_Job], together: int) -> tuple[_Round, list[_Job]]:
        """From here to the commit nothing else runs: the commit expects the state that was read."""
        now_ns = self._core.outside.clock.now_ns()
        at = BindingMoment(timestamp(now_ns), now_ns)
        rules = self._facts.rules()
        transaction = _Round(Books(self._core.cache), at, [], {rules.key: rules}, {})
        behind: list[_Job] = []
        while queue and len(transaction.jobs) < together and self._has_space(transaction):
            job = queue.popleft()
            if job.answer.done():  # The client has left.
                continue
            judged = self._judge(job, transaction)
            if isinstance(judged, PlacedPod):
                if not job.dry_run:
                    transaction.jobs.append((job, judged))
                else:
                    _answer(job, BindingDone(0, uid_of(judged.pod)))
            elif isinstance(judged, Refusal) and self._core.shared_store and not job.confirmed:
                behind.append(job)
            else:
                _answer(job, judged)
        return transaction, behind

    def _has_space(self, transaction: _Round) -> bool:
        """The first bind of a transaction may have any number of preconditions; further binds are added only
        while there is space for theirs."""
        if not self._core.shared_store or not transaction.jobs:
            return True
        return len(transaction.expects) + transaction.books.size + EXPECTS_PER_ASK <= EXPECTS_MAX

    def _judge(self, job: _Job, transaction: _Round) -> PlacedPod | Refusal | BindingFailed:
        ask, entry = job.ask, self._entry(job.ask)
        if entry is None:
            return Refusal(binding_checks.POD_GONE, f'pods "{ask.name}" not found')
        if entry.key in transaction.writes:
            return Refusal(
                binding_checks.POD_BOUND, f"pod {ask.name} is already being assigned", entry.revision
            )
        pod = self._decoded(job, entry)
        judged = judge(
            ask, pod, entry.revision, facts=self._facts, books=transaction.books, at=transaction.at
        )
        if isinstance(judged, Refusal):
            return judged
        try:
            pod, charges = self._admitted(job, judged.pod, pod)
        except ApiError as error:
            return _refusal(error)
        if job.dry_run:
            return judged
        transaction.books.post(judged.delta)
        self._join(transaction, Charge((Expect(entry.key, entry.revision),), (Put(entry.key, Body(pod)),)))
        for charge in (
            Charge(judged.expects),
            *self._reservation_charges(judged, ask.namespace, transaction),
            *charges,
        ):
            self._join(transaction, charge)
        return judged

    def _reservation_charges(
        self, judged: PlacedPod, namespace: str, transaction: _Round
    ) -> Iterator[Charge]:
        """The writes for the reservation that the pod takes over, and what quotas get back for it. Other
        binds of the transaction may have changed the same quotas."""
        if (taken := judged.taken) is None:
            return
        yield Charge((), (Put(taken.key, Body(taken.new)),))
        view = Pending(self._core.cache, transaction.writes)
        yield from given_back(namespace, taken.old, taken.new, view)

    def _join(self, transaction: _Round, charge: Charge) -> None:
        transaction.expects.update({expect.key: expect for expect in charge.preconditions})
        transaction.writes.update({write.key: write for write in charge.writes})

    def _admitted(self, job: _Job, pod: Obj, old: Obj) -> tuple[Obj, Sequence[Charge]]:
        """Run admission on the binding: fences, and users' plugins."""
        assert self._kind is not None
        attempt = WriteAttempt(
            operation=UPDATE,
            kind=self._kind,
            subresource="binding",
            namespace=job.ask.namespace,
            name=job.ask.name,
            obj=pod,
            old=old,
            user=job.caller.user,
            dry_run=job.dry_run,
            fence=job.caller.fence,
        )
        admitted = self._core.chain.admit(attempt, self._core.cache)
        return admitted.obj or pod, admitted.charges

    # The outcome of the checked binds.

    async def _catch_up(self, behind: Sequence[_Job]) -> None:
        await self._core.catch_up()
        for job in behind:
            job.confirmed = True

    def _look_for_rivals(self, tenant: str) -> None:
        """Note whether another server has written the account since our last write. A server that loses every
        race writes nothing and so is not seen again; hence one sighting is remembered for some turns."""
        seen = self._core.cache.get(TENANT_BOOKS, Key("", tenant))
        if tenant in self._own and seen is not None and seen.revision != self._own[tenant]:
            self._polite[tenant] = POLITE_TURNS

    async def _stand_aside(self, tenant: str) -> None:
        """A server that continues at once after winning a race would win again: the other servers have only
        just received the event. So it waits about as long as another server needs for one turn."""
        turns = self._polite.pop(tenant, 0)
        if turns and self._core.shared_store:
            self._polite[tenant] = turns - 1
            await asyncio.sleep((0.5 + self._core.outside.rng.random()) * ASIDE_S)

    def _requeue(self, queue: deque[_Job], transaction: _Round) -> None:
        """Requeue the binds in their old order, before later ones."""
        for job, _ in reversed(transaction.jobs):
            job.races += 1
            job.confirmed = False
            if job.races <= RACES_MAX:
                queue.appendleft(job)
            else:
                why = f"lost {job.races} races: objects that the binding depends on keep changing; try again"
                _answer(job, Refusal(binding_checks.CONTENDED, why))

    def _too_large(self, queue: deque[_Job], transaction: _Round, error: BadCommit) -> _Done:
        """The store engine rejects a commit of this size: try half of the binds, down to a single one."""
        if len(transaction.jobs) == 1:
            _answer(transaction.jobs[0][0], BindingFailed(refused_by_store(str(error))))
            return _Done()
        queue.extendleft(job for job, _ in reversed(transaction.jobs))
        return _Done(together=len(transaction.jobs) // 2)

    def _answer_all(self, transaction: _Round, answer: Answer) -> None:
        for job, _ in transaction.jobs:
            _answer(job, answer)

    def _entry(self, ask: BindingAsk) -> Entry | None:
        return self._core.cache.of("pods").entries.get(f"/registry/pods/{ask.namespace}/{ask.name}")

    def _decoded(self, job: _Job, entry: Entry) -> Obj:
        if job.decoded is None or job.decoded[0] != entry.revision:
            job.decoded = (entry.revision, entry.body.obj)
        return job.decoded[1]


def _answer(job: _Job, answer: Answer) -> None:
    if not job.answer.done():
        job.answer.set_result(answer)


def _refusal(error: ApiError) -> Refusal | BindingFailed:
    """A lost fence is one of the checks; other errors of admission are passed on unchanged."""
    if error.details.get("kind") == "fences":
        return Refusal(binding_checks.FENCE_LOST, error.message)
    return BindingFailed(error)
