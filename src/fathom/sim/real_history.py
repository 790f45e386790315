"""Asks the simulator's checkers about a real run: its commits, who made them, and what its journals hold.

    store (watched from revision 0) ──> Change ──┐
    audit logs of all API servers ──> AuditEntry ┴──> seen_in ──> RealHistory.commit ──> checkers
    journals of all processes ──> KeptDecision ─────────────────> RealHistory.read_journal
    when nothing changes any more ──────────────────────────────> RealHistory.wrong_at_rest

Of a real run nobody knows what a process has in memory, what its requests and their answers said, or when
exactly a commit happened: `NOT_JUDGED` names the checkers that need that. The others judge as in a simulated
world. What they judge by the writer they judge only where the audit log has the write: a server that is
killed takes the last moments of its log with it.
"""

from __future__ import annotations

from collections.abc import Iterable

from fathom.model.audit import AuditEntry
from fathom.model.decision import KeptDecision
from fathom.model.objects import Key, Obj, key_of
from fathom.model.well_known import ACTOR_HEADER, DECISION_HEADER
from fathom.sim.checkers.at_rest import RECORDS, AtRest, of_resource
from fathom.sim.checkers.bindings import BoundWhereItMayBe
from fathom.sim.checkers.capacity import LedgerIsTheSum, NobodyIsBoundBeyondALimit
from fathom.sim.checkers.conditions import GenerationsAreCounted, TimesMoveWithTheirStatus
from fathom.sim.checkers.containers import (
    AddressesAreApart,
    InitComesFirst,
    OnlyWhatRunsIsReady,
    RestartsAreCounted,
)
from fathom.sim.checkers.decisions import EveryEventHasItsDecision, EveryWriteHasItsDecision
from fathom.sim.checkers.endpoints import LeavingEndpointsAreNotReady
from fathom.sim.checkers.finished_work import ListedBeforeLetGo, OnlyJobsHoldPods
from fathom.sim.checkers.leaders import WritesWithinTheTerm
from fathom.sim.checkers.ledgers import NoQuotaOverItsLimit, QuotaIsTheSum
from fathom.sim.checkers.nodes import EveryWorkloadIsServed, OneRunPerPod
from fathom.sim.checkers.objects import BornInALivingNamespace, NothingIsOrphaned, ObjectsKeepTheirIdentity
from fathom.sim.checkers.operators import NoSecretInEvents
from fathom.sim.checkers.owners import NothingIsHeldBack
from fathom.sim.checkers.progress import ProgressIsOfItsGeneration
from fathom.sim.checkers.records import RecordsAreTrue
from fathom.sim.checkers.rollouts import OneRevisionPerTemplate, RolledOut
from fathom.sim.checkers.service_claims import ClaimsAreThoseOfServices
from fathom.sim.checkers.statuses import RECOUNTS, StatusesMatchObjects, StoreFacts
from fathom.sim.checkers.workloads import CountedOnce
from fathom.sim.world.invariants import NOBODY_KNOWS, Checker, Finding, Seen, place_of, standard
from fathom.sim.world.violation import Violation
from fathom.store.protocol import Change

NODE_USER = "system:node:"
VIOLATIONS_MAX = 50  # One cause may break an invariant at every commit.

MEMORY = "needs what a process has in memory"
REQUESTS = "needs whole requests; the audit log has no bodies"
ANSWERS = "needs the answers, which nothing keeps"
TIMES = "needs the time between commits; only their arrival here is known"
WRITERS = "needs the writer of every commit; a killed server loses the end of its audit log"
ORDER = "needs each decision before its commits; journals are read when the run is over"
SENT = "needs the time at which each request was sent"
FORKS = "runs forks of the simulated world"

# Of `at_home()`, the checkers of every scenario of fathom's own, by name.
NOT_JUDGED: dict[str, str] = {
    "caches equal the store when settled": MEMORY,
    "running containers match pod statuses when settled": MEMORY,
    "no work is left unfinished when settled": MEMORY,
    "an object that is reconciled does not say that it is not": MEMORY,
    "exactly one replica leads when settled": MEMORY,
    "API servers' caches equal the store when settled": MEMORY,
    "no decision deletes again what its maker has deleted": MEMORY,
    "a scheduler's table equals one made anew": MEMORY,
    "a placement keeps the rules": MEMORY,
    "an older write undoes no newer one of its sender": SENT,
    "a look at everything finds nothing to do at rest": MEMORY,
    "nothing is given up within two minutes": TIMES,
    "the gateway's table and routes' statuses match the objects when settled": MEMORY,
    "a step of a policy rollout is over only when all schedulers have seen it": MEMORY,
    "a step of a policy rollout lasts as long as it says": TIMES,
    "a delete names the object's UID": REQUESTS,
    "no eviction beyond its budget": REQUESTS,
    "no process undoes another's condition": REQUESTS,
    "a list of conditions is written only as it was read": REQUESTS,
    "a pod is deleted as not ready only as it was read": REQUESTS,
    "a dry run stores nothing": REQUESTS,
    "a write does what was asked": REQUESTS,
    "a field keeps its owners while it stays as it is": REQUESTS,
    "every observed write is declared": REQUESTS,
    "every observed read is declared": REQUESTS,
    "API answers match the store": ANSWERS,
    "everybody may do what their roles say, and nothing else": ANSWERS,
    "restarts are spaced": TIMES,
    "what is on record as done is done, and what as not done is not": TIMES,
    "a condition's time is when its status changed": TIMES,
    "a status is not rewritten only for the numbers in its messages": TIMES,
    "a lease is taken over only after it expires": TIMES,
    "a pod is rejected only where it does not fit": TIMES,
    "no actor removes another's condition": WRITERS,
    "a condition is not replaced by one about an older generation": WRITERS,
    "only objects without owners are garbage-collected": WRITERS,
    "only the victims of a preemption are marked": ORDER,
    "published signals are those of the present leader when settled": MEMORY,
    "no pod is created for an index that is over": TIMES,
    "an index fails by its own pods": WRITERS,
    "a crash loop keeps its start": TIMES,
    "each life of a process leads in an epoch of its own": WRITERS,
    "pods of a node that is seen alive stay in service": WRITERS,
    "a rollout is given up only without progress": TIMES,
    "the change that why proposes for a waiting pod admits it": FORKS,
}


def seen_in(change: Change, entry: AuditEntry | None, at_s: float) -> Seen:
    """A commit as checkers see it. `entry`: of exactly this write; None where the audit log has none.
    `at_s`: when it arrived here."""
    resource, key = place_of(change.key)
    return Seen(
        resource=resource,
        key=key,
        revision=change.revision,
        old=None if change.previous is None else change.previous.body.obj,
        new=None if change.entry is None else change.entry.body.obj,
        at_s=at_s,
        by=NOBODY_KNOWS if entry is None else _writer(entry),
        incarnation=1,
        headers=() if entry is None else _headers(entry),
    )


def _writer(entry: AuditEntry) -> str:
    """Agents go by the names of their nodes, as in a simulated world."""
    if entry.user.startswith(NODE_USER):
        return entry.user.removeprefix(NODE_USER)
    return entry.actor or entry.user


def _headers(entry: AuditEntry) -> tuple[tuple[str, str], ...]:
    named = ((ACTOR_HEADER, entry.actor), (DECISION_HEADER, entry.decision))
    return tuple((name, value) for name, value in named if value)


class AuditIndex:
    """The audit entries of all API servers, by what they wrote."""

    def __init__(self) -> None:
        self._entries: dict[tuple[int, str, Key], AuditEntry] = {}
        self._revisions: set[int] = set()

    def add(self, entry: AuditEntry) -> None:
        if entry.wrote:
            self._entries[entry.revision, entry.resource, Key(entry.namespace, entry.name)] = entry
            self._revisions.add(entry.revision)

    def knows(self, revision: int) -> bool:
        return revision in self._revisions

    def of(self, change: Change) -> AuditEntry | None:
        """None also for what one commit wrote besides: accounts, and what a binding takes over."""
        return self._entries.get((change.revision, *place_of(change.key)))


class _NamedDecisions:
    """Takes every decision as recorded until the journals have been read."""

    def __init__(self) -> None:
        self.by_id: dict[str, None] = {}

    def __contains__(self, decision: object) -> bool:
        self.by_id[str(decision)] = None
        return True


class RealHistory:
    """Feed it every commit since revision 0, in order; then the journals; then say that all is at rest."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self.commits = self.decisions = 0
        self._named = _NamedDecisions()
        self._recorded: set[str] = set()
        self._whole = True  # The journals have no gaps.
        self._records = RecordsAreTrue()
        self._statuses = StatusesMatchObjects()
        self._checkers = [*_by_commits(), *self._by_decisions(), self._records]
        self._objects: dict[str, Obj] = {}  # The API's objects as they are now, by path.

    @property
    def judged(self) -> list[str]:
        """The names of the invariants."""
        return list(dict.fromkeys(checker.name for checker in (*self._checkers, self._statuses)))

    def commit(self, change: Seen) -> None:
        self.commits += 1
        if change.resource not in RECORDS:
            self._follow(change)
        for checker in self._checkers:
            if checker.concerns(change.resource) and (found := checker.commit(change)) is not None:
                self._broken(checker, found, change.at_s, (change.path,))

    def reached(self, revision: int) -> None:
        """The store is at this revision: it may be a change of something else than an object."""
        self._records.newest = max(self._records.newest, revision)

    def read_journal(self, process: str, kept: Iterable[KeptDecision], *, at_s: float) -> None:
        """Its records rest on commits that this history has: of a run that goes on, read the journal first,
        then the commits, and give the journal last."""
        for each in kept:
            self.decisions += 1
            self._recorded.add(each.decision.id)
            wrong = list(self._records.wrong_decision(each.decision))
            wrong += filter(None, map(self._records.wrong_conclusion, each.outcomes))
            subject = each.decision.subject
            path = "/".join(part for part in (subject.resource, subject.namespace, subject.name) if part)
            for text in wrong:
                self._broken(self._records, f"{process}: {text}", at_s, (path,))

    def journals_have_gaps(self) -> None:
        """Before they are read: a process could not record all that it decided, because its disk was full."""
        self._whole = self._records.complete = False

    def journals_are_read(self, *, at_s: float, also: Iterable[str] = ()) -> None:
        """A write whose decision is in no journal is no violation where journals have gaps. `also`: ids of
        decisions that were recorded since the journals were read."""
        self._recorded.update(also)
        for decision in self._named.by_id:
            if self._whole and decision not in self._recorded:
                text = f"a write names decision {decision}, which no journal has"
                self._broken(EveryWriteHasItsDecision(), text, at_s, ())

    def wrong_at_rest(self, *, at_s: float) -> list[Violation]:
        """When faults are over, all that was wanted is there, and all processes run. Controllers may still
        have something to write: what is wrong counts when it stays so."""
        at_rest = [checker for checker in self._checkers if isinstance(checker, AtRest)]
        found = [(each, wrong) for each in at_rest for wrong in each.at_rest(self._objects, at_s)]
        agents = [key_of(node).name for node in of_resource(self._objects, "nodes")]
        facts = StoreFacts(lambda resource: of_resource(self._objects, resource), agents)
        statuses = [(self._statuses, wrong) for wrong in self._statuses.recounted(facts, RECOUNTS)]
        return [_violation(checker, wrong, at_s, ()) for checker, wrong in (*found, *statuses)]

    def _follow(self, change: Seen) -> None:
        if change.new is None:
            self._objects.pop(change.path, None)
        else:
            self._objects[change.path] = change.new

    def _by_decisions(self) -> list[Checker]:
        writes, events = EveryWriteHasItsDecision(), EveryEventHasItsDecision()
        for checker in (writes, events):
            checker.judge_by(_is_ours, self._named)
        return [writes, events]

    def _broken(self, checker: Checker, found: str | Finding, at_s: float, paths: tuple[str, ...]) -> None:
        if len(self.violations) < VIOLATIONS_MAX:
            self.violations.append(_violation(checker, found, at_s, paths))


def _violation(checker: Checker, found: str | Finding, at_s: float, paths: tuple[str, ...]) -> Violation:
    if isinstance(found, Finding):
        return Violation(checker.name, found.message, at_s, found.objects or paths)
    return Violation(checker.name, found, at_s, paths)


def _is_ours(change: Seen) -> bool:
    """Of the real run's writers, those that say which part of fathom they are."""
    return ACTOR_HEADER in dict(change.headers)


def _by_commits() -> list[Checker]:
    """Checkers that need the commits alone, or besides who made those that the audit log has."""
    return [
        *standard(),
        ObjectsKeepTheirIdentity(),
        WritesWithinTheTerm(),  # In part: the fence that a request claims is not in the audit log.
        QuotaIsTheSum(),
        ClaimsAreThoseOfServices(),
        NoQuotaOverItsLimit(),
        LedgerIsTheSum(),
        NobodyIsBoundBeyondALimit(),
        NothingIsOrphaned(),
        BoundWhereItMayBe(),
        RestartsAreCounted(),
        AddressesAreApart(),
        InitComesFirst(),
        OnlyWhatRunsIsReady(),
        TimesMoveWithTheirStatus(),
        LeavingEndpointsAreNotReady(),
        ListedBeforeLetGo(),
        OnlyJobsHoldPods(),
        GenerationsAreCounted(),
        ProgressIsOfItsGeneration(),
        BornInALivingNamespace(),
        NothingIsHeldBack(),
        OneRunPerPod(),
        OneRevisionPerTemplate(),
        CountedOnce(),
        RolledOut(),
        EveryWorkloadIsServed(),
        NoSecretInEvents(),
    ]
