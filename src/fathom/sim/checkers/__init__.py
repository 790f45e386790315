"""Checkers of objects, leaders, caches, workloads, ledgers and more. Each file has those of one subject.

`everywhere` returns those that hold in any world; a scenario names the others, those of its own kinds.
"""

from __future__ import annotations

from fathom.sim.checkers.api_answers import AnswersAreTrue
from fathom.sim.checkers.bindings import BoundWhereItMayBe
from fathom.sim.checkers.budgets import EvictionsAreAllowed
from fathom.sim.checkers.caches import CachesAreTrue
from fathom.sim.checkers.capacity import LedgerIsTheSum, NobodyIsBoundBeyondALimit
from fathom.sim.checkers.conditions import (
    ConditionsDoNotVanish,
    ConditionsFollowGenerations,
    ConditionsStayAsTheyAre,
    GenerationsAreCounted,
    TimesAreOfTheChange,
    TimesMoveWithTheirStatus,
    WholeListsAreGuarded,
)
from fathom.sim.checkers.containers import (
    AddressesAreApart,
    InitComesFirst,
    NothingRunsUnwanted,
    OnlyWhatRunsIsReady,
    RestartsAreCounted,
    RestartsAreSpaced,
)
from fathom.sim.checkers.crash_loops import CrashLoopsKeepTheirStart
from fathom.sim.checkers.decisions import EveryEventHasItsDecision, EveryWriteHasItsDecision
from fathom.sim.checkers.declared_reads import ReadsAreDeclared
from fathom.sim.checkers.declared_writes import WritesAreDeclared
from fathom.sim.checkers.endpoints import LeavingEndpointsAreNotReady
from fathom.sim.checkers.evicted_pods import VictimsAreMarked
from fathom.sim.checkers.field_owners import FieldsKeepTheirOwners
from fathom.sim.checkers.finished_work import ListedBeforeLetGo, OnlyJobsHoldPods
from fathom.sim.checkers.gateway_table import GatewayFollowsObjects
from fathom.sim.checkers.given_up import GivenUpWithoutProgress
from fathom.sim.checkers.jobs import IndexesRunOnce, OnlyFailedIndexesFail
from fathom.sim.checkers.leaders import EachLifeHasItsEpoch, LeasesAreHeldOut, WritesWithinTheTerm
from fathom.sim.checkers.ledgers import NoQuotaOverItsLimit, QuotaIsTheSum
from fathom.sim.checkers.nodes import SparedNodesServe
from fathom.sim.checkers.objects import (
    BornInALivingNamespace,
    NothingIsOrphaned,
    NothingIsStoredByTrying,
    ObjectsKeepTheirIdentity,
    WhoDeletesNamesTheObject,
)
from fathom.sim.checkers.own_order import OlderWritesUndoNothing
from fathom.sim.checkers.owners import NothingIsHeldBack, OnlyTheUnownedAreCollected
from fathom.sim.checkers.placements import PlacementsKeepTheRules
from fathom.sim.checkers.policy_rollouts import RolloutStepsAreSeen, RolloutStepsLast
from fathom.sim.checkers.present_trouble import TroubleIsPresent
from fathom.sim.checkers.progress import ProgressIsOfItsGeneration
from fathom.sim.checkers.proposals import ProposedChangesHelp
from fathom.sim.checkers.quiet_processes import (
    NothingIsLeftInHand,
    ServersKnowTheStore,
    SignalsAreOfWhoLeads,
    SomebodyLeads,
)
from fathom.sim.checkers.records import OwnDeletesAreKnown, RecordsAreTrue
from fathom.sim.checkers.rejections import RejectedForWantOfRoom
from fathom.sim.checkers.retries import NothingIsGivenUpSoon
from fathom.sim.checkers.rights import RightsAreThoseOfRoles
from fathom.sim.checkers.scheduler_tables import TablesEqualNewOnes
from fathom.sim.checkers.service_claims import ClaimsAreThoseOfServices
from fathom.sim.checkers.status_rewrites import StatusIsNotRewritten
from fathom.sim.checkers.statuses import StatusesMatchObjects
from fathom.sim.checkers.unwoken import NothingIsLeftToDo
from fathom.sim.checkers.workloads import UnreadyPodsGoAsRead
from fathom.sim.checkers.write_outcomes import OutcomesAreSo
from fathom.sim.checkers.writes import WritesAreAsAsked
from fathom.sim.world.invariants import Checker


def at_home() -> list[Checker]:
    """Checkers for fathom's own scenarios: its code also keeps rules that users' controllers need not."""
    return [
        *everywhere(),
        WhoDeletesNamesTheObject(),
        BoundWhereItMayBe(),
        TablesEqualNewOnes(),
        PlacementsKeepTheRules(),
        OlderWritesUndoNothing(),
        NothingIsLeftToDo(),
        NothingIsGivenUpSoon(),
        EvictionsAreAllowed(),
        VictimsAreMarked(),
        RestartsAreCounted(),
        RejectedForWantOfRoom(),
        AddressesAreApart(),
        RestartsAreSpaced(),
        InitComesFirst(),
        OnlyWhatRunsIsReady(),
        NothingRunsUnwanted(),
        TimesMoveWithTheirStatus(),
        TimesAreOfTheChange(),
        StatusIsNotRewritten(),
        ConditionsStayAsTheyAre(),
        ConditionsDoNotVanish(),
        ConditionsFollowGenerations(),
        WholeListsAreGuarded(),
        LeavingEndpointsAreNotReady(),
        ListedBeforeLetGo(),
        OnlyJobsHoldPods(),
        IndexesRunOnce(),
        OnlyFailedIndexesFail(),
        UnreadyPodsGoAsRead(),
        GenerationsAreCounted(),
        ProgressIsOfItsGeneration(),
        RolloutStepsAreSeen(),
        RolloutStepsLast(),
        CrashLoopsKeepTheirStart(),
        GivenUpWithoutProgress(),
        SparedNodesServe(),
        OnlyTheUnownedAreCollected(),
        NothingIsStoredByTrying(),
        BornInALivingNamespace(),
        NothingIsHeldBack(),
        NothingIsLeftInHand(),
        TroubleIsPresent(),
        SomebodyLeads(),
        SignalsAreOfWhoLeads(),
        LeasesAreHeldOut(),
        EachLifeHasItsEpoch(),
        ServersKnowTheStore(),
        AnswersAreTrue(),
        WritesAreAsAsked(),
        RightsAreThoseOfRoles(),
        FieldsKeepTheirOwners(),
        ClaimsAreThoseOfServices(),
        WritesAreDeclared(),
        ReadsAreDeclared(),
        StatusesMatchObjects(),
        GatewayFollowsObjects(),
        RecordsAreTrue(),
        OutcomesAreSo(),
        OwnDeletesAreKnown(),
        EveryWriteHasItsDecision(),
        EveryEventHasItsDecision(),
        ProposedChangesHelp(),
    ]


def everywhere() -> list[Checker]:
    return [
        ObjectsKeepTheirIdentity(),
        WritesWithinTheTerm(),
        CachesAreTrue(),
        QuotaIsTheSum(),
        NoQuotaOverItsLimit(),
        LedgerIsTheSum(),
        NobodyIsBoundBeyondALimit(),
        NothingIsOrphaned(),
    ]
