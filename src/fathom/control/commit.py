"""Carry out a plan: record the decision in the journal, send its actions, and find out the outcome of each.

    needs met? ──no──> held: only the status is written
       │ yes
    journal ──> creates ──> patches ──> deletes ──> status        each: send, settle by reading, record
                   └─ the first failure keeps the following groups from being sent ─┘

A plan without actions is recorded too, when its reason is another than that of the last record.

Each write is recorded under its owner: the owner's next decision waits until its cache shows the write.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence

import msgspec

from fathom.cache.caches import Caches
from fathom.cache.freshness import Unmet, unmet
from fathom.cache.needs import OwnWrites
from fathom.cache.own_writes import WriteLog
from fathom.cache.snapshot import Snapshot
from fathom.client.api import Api
from fathom.client.outcomes import Committed, Conflict, Outcome, Rejected, Unknown
from fathom.client.settle import settled
from fathom.control import breaker, lease
from fathom.control.decision_log import result_of
from fathom.control.event_writer import EventChange
from fathom.control.plan import (
    OWN_WRITES,
    Action,
    Create,
    Delete,
    Evict,
    Patch,
    Plan,
    WriteStatus,
    is_done,
)
from fathom.control.reconcile_result import Blame, Failure
from fathom.control.recorded_reasons import RecordedReasons
from fathom.control.watches import WatchedKind
from fathom.kinds.capacity_class import CAPACITY_CLASSES
from fathom.kinds.override_status import MADE_BY
from fathom.kinds.scheduler_override import OVERRIDES
from fathom.kinds.tenant_quota import TENANT_QUOTAS
from fathom.model import decision
from fathom.model.cause import UNSTATED, WakeCause
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.decision import Decision, Journal, Result, Subject
from fathom.model.objects import Key, Obj, key_of, metadata, uid_of
from fathom.model.well_known import DECISION_HEADER as DECISION_HEADER  # noqa: PLC0414  # As before.
from fathom.model.well_known import OVERRIDES_SEEN_HEADER
from fathom.seams.loop_clock import loop_now_s
from fathom.seams.outside import Clock, Ids

# As in Kubernetes' own controllers: one action first, then twice as many at a time while they succeed.
BATCH_MAX = 32
PROBE_S = 5.0
STACK_LENGTH_MAX = 4000  # The end of a stack shows what happened.
NOT_SENT = frozenset({breaker.REASON, lease.NOT_LEADER})
# Where a decision lists what its plan considered; everything else is a policy.
QUOTAS = frozenset({TENANT_QUOTAS, CAPACITY_CLASSES, "resourcequotas"})
OVERRIDES_AND_QUOTAS = QUOTAS | {OVERRIDES}
OVERRIDE_KIND = "SchedulerOverride"
Headers = tuple[tuple[str, str], ...]


class PlanPass(msgspec.Struct, frozen=True):
    """One reconcile pass over one key: which controller decides, and what woke the key."""

    controller: str
    kind: WatchedKind
    key: Key
    cause: WakeCause = UNSTATED
    attempt: int = 1
    waited_ns: int = 0
    epoch: int = 0

    @property
    def owner(self) -> str:
        """The owner that writes are recorded under. Controllers do not wait for each other's writes."""
        return f"{self.controller}/{self.key.namespace}/{self.key.name}"


class AppliedPlan(msgspec.Struct, frozen=True):
    """The outcome of a plan. `failure` is None if every action succeeded."""

    outcomes: tuple[tuple[str, Outcome], ...] = ()  # What was sent, in order, with its outcome.
    failure: Failure | None = None


class Commit:
    def __init__(
        self,
        api: Api,
        kinds: Mapping[str, WatchedKind],
        caches: Caches,
        written: WriteLog,
        *,
        clock: Clock,
        ids: Ids,
        rng: random.Random,
        journal: Journal,
        tell: Callable[[EventChange], None] = lambda change: None,
    ) -> None:
        self._api = api
        self._kinds = kinds
        self._caches = caches
        self._written = written
        self._clock = clock
        self._ids = ids
        self._rng = rng
        self._journal = journal
        self._tell = tell
        self._unsure: dict[str, dict[str, None]] = {}  # Owner -> kinds with a write of unknown outcome.
        self._reasons = RecordedReasons()

    async def apply(self, plan: Plan, *, here: PlanPass, seen: Snapshot) -> AppliedPlan:
        needs = [OwnWrites(here.owner) if need == OWN_WRITES else need for need in plan.needs]
        lacking = unmet(needs, seen, self._written, now_s=loop_now_s()) if plan.actions else []
        is_new = self._is_new_reason(plan, here, seen, lacking)
        if not plan.statuses and (lacking or not plan.actions):
            recorded = self._decided(plan, here, seen, lacking) if is_new else ""
            return AppliedPlan(failure=held(lacking, recorded) if lacking else None)
        id_ = self._decided(plan, here, seen, lacking)
        sender = _Sender(self, here.owner, id_, _proof(plan, seen))
        outcomes: list[tuple[Action, Outcome]] = []
        for group in () if lacking else (plan.creates, plan.patches, plan.deletes):
            outcomes += await sender.in_batches(group)
            if _first_failure(outcomes) is not None:
                break
        outcomes += await _Sender(self, here.owner, id_).in_batches(plan.statuses)
        if (subject := seen.get(here.kind.name, here.key)) is not None:
            for action, outcome in outcomes:
                self._tell(EventChange(subject, seen, action, outcome, plan.why, plan.because, id_))
        failure = held(lacking) if lacking else _first_failure(outcomes)
        if failure is not None:
            failure = msgspec.structs.replace(failure, decision=id_)
        return AppliedPlan(tuple((action.line, outcome) for action, outcome in outcomes), failure)

    async def sure(self, owner: str) -> bool:
        """Whether the owner may decide again. After a write of unknown outcome its cache must first have seen
        everything that had happened by now; this asks the server."""
        kinds = self._unsure.get(owner)
        if kinds is None:
            return True
        for kind in tuple(kinds):
            if not await self._caches.probe(kind, timeout_s=PROBE_S):
                return False
            kinds.pop(kind, None)
        self._unsure.pop(owner, None)
        return True

    def record_death(self, plan_pass: PlanPass, error: BaseException, stack: str) -> str:
        """Records a pass that raised: it decided nothing, and the journal shows that too. Returns the id."""
        id_ = self._ids.uid()
        self._journal.decided(
            Decision(
                id=id_,
                time_ns=self._clock.now_ns(),
                controller=plan_pass.controller,
                subject=Subject(plan_pass.kind.resource.name, *plan_pass.key),
                verdict="died",
                attempt=plan_pass.attempt,
                cause=plan_pass.cause,
                epoch=plan_pass.epoch,
                message=f"{error!r}\n{stack[-STACK_LENGTH_MAX:]}",
            )
        )
        return id_

    def forget(self, owner: str) -> None:
        """The object is gone: no further decision about it will be made."""
        self._unsure.pop(owner, None)
        self._reasons.forget(owner)

    def _is_new_reason(
        self, plan: Plan, plan_pass: PlanPass, seen: Snapshot, lacking: Sequence[Unmet]
    ) -> bool:
        """Whether the owner's last record has another reason: keys that wait are looked at repeatedly."""
        if lacking:
            reason = "held: " + "; ".join(f"{need.reason} {need.kind}" for need in lacking)
        elif plan.actions or plan.statuses:
            reason = plan.why or plan.verdict
        elif plan.why and seen.get(plan_pass.kind.name, plan_pass.key) is not None:
            reason = plan.why
        else:
            return False
        return self._reasons.changes(plan_pass.owner, reason)

    def _decided(self, plan: Plan, plan_pass: PlanPass, seen: Snapshot, lacking: Sequence[Unmet]) -> str:
        """Records the decision, before anything is sent."""
        subject = seen.get(plan_pass.kind.name, plan_pass.key) or {}
        id_ = self._ids.uid()
        self._journal.decided(
            Decision(
                id=id_,
                time_ns=self._clock.now_ns(),
                controller=plan_pass.controller,
                subject=Subject(
                    plan_pass.kind.resource.name, *plan_pass.key, uid_of(subject), _generation(subject)
                ),
                verdict="hold" if lacking else plan.verdict,
                attempt=plan_pass.attempt,
                cause=plan_pass.cause,
                queued_ms=round(plan_pass.waited_ns / 1e6, 3),
                seen={kind: seen.seen(kind) for kind in seen.kinds},
                epoch=plan_pass.epoch,
                need="; ".join(map(_needed, lacking)),
                actions=tuple(action.line for action in (*plan.actions, *plan.statuses)),
                policies=tuple(each for each in plan.considered if each.resource not in OVERRIDES_AND_QUOTAS),
                overrides=tuple(each for each in plan.considered if each.resource == OVERRIDES),
                quotas=tuple(each for each in plan.considered if each.resource in QUOTAS),
                observed_generation=_generation(subject),
                condition=reported_conditions(plan, seen),
                message=plan.why,
            )
        )  # fmt: skip
        if lacking:
            self._concluded(id_, "held", 0, lacking[0].why)
        return id_

    def _concluded(
        self,
        id_: str,
        result: Result,
        revision: int,
        message: str,
        obj: Subject | None = None,
        *,
        verb: str = "",
        check: str = "",
    ) -> None:
        self._journal.concluded(
            decision.Outcome(
                id=id_,
                time_ns=self._clock.now_ns(),
                result=result,
                revision=revision,
                object=obj,
                message=message,
                verb=verb,
                check=check,
            )
        )

    # Sending one action.

    async def _send(self, action: Action, *, owner: str, id_: str, headers: Headers) -> Outcome:
        api = self._api.with_headers(*headers).with_decision(id_)
        kind, key = self._kind_of(action), _kind_and_key(action)[1]
        sent = await _sent(api, action, kind)

        async def read() -> Obj | None:
            return await api.get(kind.resource, key.namespace, key.name)

        outcome = await settled(
            _as_seen(action, sent), read, lambda current: is_done(action, current), rng=self._rng
        )
        self._remember(action, outcome, owner)
        result, revision, message = _result_of(action, sent, outcome)
        written = Subject(kind.resource.name, *key, _uid_of(action, outcome))
        if isinstance(outcome, Committed) and uid_of(outcome.obj) not in {"", written.uid}:
            revision = 0  # It was deleted, and another object has its name: this is the other one's.
        text = f"{action.line}{message and ': ' + message}"
        self._concluded(id_, result, revision, text, written, verb=action.verb, check=_check_of(outcome))
        return outcome

    def _kind_of(self, action: Action) -> WatchedKind:
        name, _ = _kind_and_key(action)
        if not isinstance(action, Create) and action.target.resource is not None:
            return WatchedKind(name, action.target.resource)
        return self._kinds[name]

    def _remember(self, action: Action, outcome: Outcome, owner: str) -> None:
        """Records what the owner's next decision must see: its own writes, and a fresh read after a lost
        race."""
        kind, key = _kind_and_key(action)
        if kind not in self._caches.kinds:
            return
        match outcome:
            case Committed() if isinstance(action, Delete | Evict):
                self._written.record_delete(owner, kind, key, action.target.uid)
            case Committed(obj=obj) if isinstance(action, Patch) and _is_gone(action, obj):
                self._written.record_delete(owner, kind, key, action.target.uid)
            case Committed(obj=obj):
                self._show(owner, kind, obj)
            case Conflict(current=current) if current is not None:
                self._show(owner, kind, current)
            case Conflict() | Unknown():
                self._unsure.setdefault(owner, {})[kind] = None
            case Rejected():
                pass

    def _show(self, owner: str, kind: str, obj: Obj) -> None:
        """Puts an object from the server's answer into the cache, which then need not wait for its watch. If
        the cache already has a newer one, this changes nothing."""
        revision = int(metadata(obj).get("resourceVersion") or 0)
        if revision:
            self._written.record(owner, kind, revision, key_of(obj))
            self._caches.apply_write(kind, obj)


class _Sender:
    """Sends the actions of one decision in batches that grow as long as all of them succeed."""

    def __init__(self, commit: Commit, owner: str, id_: str, headers: Headers = ()) -> None:
        self._commit = commit
        self._owner = owner
        self._id = id_
        self._headers = headers

    async def in_batches(self, actions: Sequence[Action]) -> list[tuple[Action, Outcome]]:
        outcomes: list[tuple[Action, Outcome]] = []
        size = 1
        while len(outcomes) < len(actions):
            batch = actions[len(outcomes) : len(outcomes) + size]
            outcomes += zip(batch, await self._together(batch), strict=True)
            if _first_failure(outcomes) is not None:
                break
            size = min(2 * size, BATCH_MAX)
        return outcomes

    async def _together(self, batch: Sequence[Action]) -> list[Outcome]:
        if len(batch) == 1:
            return [await self._send(batch[0])]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._send(action)) for action in batch]
        return [task.result() for task in tasks]

    async def _send(self, action: Action) -> Outcome:
        return await self._commit._send(action, owner=self._owner, id_=self._id, headers=self._headers)


def _proof(plan: Plan, seen: Snapshot) -> Headers:
    """What tells the server by which overrides the plan was made."""
    return ((OVERRIDES_SEEN_HEADER, str(seen.revision(OVERRIDE_KIND))),) if plan.heeds_pauses else ()


async def _sent(api: Api, action: Action, kind: WatchedKind) -> Outcome:
    match action:
        case Create(obj=obj):
            whole = {"kind": kind.name, "apiVersion": kind.api_version, **obj}
            return await api.create(kind.resource, key_of(obj).namespace, whole)
        case Patch(target=at, patch=patch, subresource=subresource):
            guard = {"uid": at.uid, **({"resourceVersion": at.revision} if at.revision else {})}
            body = {**patch, "metadata": {**(patch.get("metadata") or {}), **guard}}
            return await api.patch(
                kind.resource, at.key.namespace, at.key.name, body, subresource=subresource
            )
        case WriteStatus(target=at, status=status):
            guard = {"uid": at.uid, **({"resourceVersion": at.revision} if at.revision else {})}
            return await api.patch(
                kind.resource,
                at.key.namespace,
                at.key.name,
                {"metadata": guard, "status": status},
                subresource="status",
            )
        case Delete(target=at, policy=policy, grace_s=grace_s, as_read=as_read):
            return await api.delete(
                kind.resource,
                at.key.namespace,
                at.key.name,
                uid=at.uid,
                revision=at.revision if as_read else "",
                policy=policy,
                grace_s=grace_s,
            )
        case Evict(target=at):
            return await api.create(kind.resource, at.key.namespace, _eviction(action), "eviction")


def _eviction(action: Evict) -> Obj:
    notes = {"annotations": {MADE_BY: action.override}} if action.override else {}
    revision = {"resourceVersion": action.target.revision} if action.as_read else {}
    return {
        "kind": "Eviction",
        "apiVersion": "policy/v1",
        "metadata": {"namespace": action.target.key.namespace, "name": action.target.key.name, **notes},
        "deleteOptions": {"preconditions": {"uid": action.target.uid, **revision}},
    }


def _as_seen(action: Action, outcome: Outcome) -> Outcome:
    """A missing object is success for a delete; for any other change it is a reason to read again."""
    if isinstance(outcome, Rejected) and outcome.code == 404:
        if isinstance(action, Delete | Evict):
            return Committed({})
        if not isinstance(action, Create):
            return Conflict(None, outcome.message)
    return outcome


def _kind_and_key(action: Action) -> tuple[str, Key]:
    if isinstance(action, Create):
        return action.kind, key_of(action.obj)
    return action.target.kind, action.target.key


def _first_failure(outcomes: Sequence[tuple[Action, Outcome]]) -> Failure | None:
    return next((failure for action, outcome in outcomes if (failure := _failure(action, outcome))), None)


def _failure(action: Action, outcome: Outcome) -> Failure | None:
    match outcome:
        case Committed():
            return None
        case Conflict(current=current, why=why):
            if (
                isinstance(action, Create)
                and current is not None
                and not metadata(current).get("deletionTimestamp")
            ):
                return Failure("NameTaken", f"{action.line}: another owner has this name: {why}")
            return Failure("Conflict", f"{action.line}: {why}")
        case Rejected(reason=reason, code=code, message=message, retry_after_s=retry_after_s, causes=causes):
            blame: Blame = "not sent" if reason in NOT_SENT else "failed"
            text = message if blame == "not sent" else f"{action.line}: {message}"
            word = reason or f"HTTP{code}"
            return Failure(word, text, blame, retry_after_s, answer=message, causes=causes)
        case Unknown(cause=cause):
            return Failure("OutcomeUnknown", f"{action.line}: {cause}")


def held(lacking: Sequence[Unmet], decision: str = "") -> Failure:
    message = "; ".join(f"{need.kind}: {need.why}" for need in lacking)
    kinds = tuple(dict.fromkeys(need.kind for need in lacking))
    return Failure(lacking[0].reason, message, "held", lacks=kinds, decision=decision)


def _needed(need: Unmet) -> str:
    return f"{need.reason}: {need.kind} {need.why}" + (f" ({need.measured})" if need.measured else "")


def _result_of(action: Action, sent: Outcome, outcome: Outcome) -> tuple[Result, int, str]:
    result, revision, message = result_of(outcome)
    if isinstance(action, Create) and isinstance(sent, Unknown) and isinstance(outcome, Conflict):
        return (
            "unknown",
            0,
            f"{message}; the object is absent now, and may have been there",
        )
    was_unknown = isinstance(outcome, Committed) and not isinstance(sent, Committed)
    return ("settled" if was_unknown else result), revision, message


def _check_of(outcome: Outcome) -> str:
    """The check that failed at the server, if it named one."""
    causes = outcome.causes if isinstance(outcome, Conflict | Rejected) else ()
    return causes[0] if causes else ""


def _is_gone(action: Patch, obj: Obj) -> bool:
    """Whether the object went with the last of its finalizers: the answer shows it as it was then."""
    meta = metadata(obj)
    of_finalizers = "finalizers" in (action.patch.get("metadata") or {}) and not meta.get("finalizers")
    return (
        of_finalizers and bool(meta.get("deletionTimestamp")) and not meta.get("deletionGracePeriodSeconds")
    )


def _uid_of(action: Action, outcome: Outcome) -> str:
    if isinstance(action, Create):
        return uid_of(outcome.obj) if isinstance(outcome, Committed) else ""
    return action.target.uid


def reported_conditions(plan: Plan, seen: Snapshot) -> str:
    """The conditions that the plan's status writes change: 'Available=True/MinimumReplicasAvailable'."""
    written = [(write.target, {"status": write.status}) for write in plan.statuses]
    written += [(patch.target, patch.patch) for patch in plan.patches if patch.subresource == "status"]
    changed = (
        condition
        for at, obj in written
        for condition in conditions_of(obj)
        if seen.shows(at.kind) and not _has_condition(seen.get(at.kind, at.key) or {}, condition)
    )
    words = (f"{each.get('type')}={each.get('status')}/{each.get('reason') or ''}" for each in changed)
    return ", ".join(word.removesuffix("/") for word in words)


def _has_condition(obj: Obj, condition: Obj) -> bool:
    before = find_condition(conditions_of(obj), str(condition.get("type"))) or {}
    return all(before.get(name) == condition.get(name) for name in ("status", "reason", "observedGeneration"))


def _generation(obj: Obj) -> int:
    return int(metadata(obj).get("generation") or 0)
