"""What a scheduler's record says that it consulted: which objects, at which revision, which decided."""

from __future__ import annotations

from pathlib import Path

from tests.control.worlds import told
from tests.schedule.test_known import own
from tests.schedule.test_records import cluster, record, views

from fathom.client.api import Resource
from fathom.explain.why.records import considered_texts
from fathom.gateway.controller import ROUTES
from fathom.gateway.controller import begin as begin_gateway
from fathom.model import accounts
from fathom.model.decision import Considered, Decision
from fathom.model.objects import Key, Obj, lookup, metadata, uid_of
from fathom.model.resources import NODES, PODS, SERVICES
from fathom.model.user import User
from fathom.schedule.decide.context import PlacementContext, Policy
from fathom.schedule.loop.cluster_view import ClusterView
from fathom.sim.checkers.records import RecordsAreTrue
from fathom.sim.report.chronicle import Chronicle, Concluded, DecisionMade
from fathom.sim.scenarios.gateways import route
from fathom.sim.scenarios.scheduling import CLASSES, QUOTAS, node, pod, quota, run_scheduler
from fathom.sim.scenarios.serving import service
from fathom.sim.world.world import World

NOW = 0
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets")


def stored(kind: str, name: str, spec: Obj, *, revision: int, namespace: str = "", **status: object) -> Obj:
    obj = own(kind, name, spec, namespace=namespace, status=dict(status))
    return {**obj, "metadata": {**metadata(obj), "uid": f"uid-{name}", "resourceVersion": str(revision)}}


def test_an_override_is_recorded_with_its_uid_generation_and_revision(tmp_path: Path) -> None:
    known = cluster(2)
    spec = {
        "target": "workload/p0",
        "reason": "works",
        "expiresAfter": "45m",
        "changes": {"avoidNodes": ["n0"]},
    }
    override = stored("SchedulerOverride", "calm", spec, revision=461, namespace="a")
    known.put("SchedulerOverride", None, override)
    (decision,), _, _ = record(known, views(known, 1, cpu="1"), tmp_path)
    assert decision.overrides == (
        Considered("calm", 461, True, "scheduleroverrides.fathom.dev", "a", "uid-calm", 1),
    )


def test_a_quota_is_recorded_as_it_was_in_the_view_though_only_its_status_changed(tmp_path: Path) -> None:
    known = cluster(1)
    limits = {"limits": [{"resources": {"cpu": "1"}}]}
    before = stored("TenantQuota", "a", limits, revision=7)
    known.put("TenantQuota", None, before)
    known.put("TenantQuota", before, stored("TenantQuota", "a", limits, revision=9, used=[]))
    fits, waits = record(known, views(known, 2, cpu="1"), tmp_path)[0]
    name = "tenantquotas.fathom.dev"
    assert fits.quotas == (Considered("a", 9, False, name, "", "uid-a", 1),)
    assert waits.quotas == (Considered("a", 9, True, name, "", "uid-a", 1),)


def test_the_rollout_that_sets_a_policy_is_recorded_beside_it() -> None:
    known = ClusterView()
    known.put("SchedulingPolicy", None, stored("SchedulingPolicy", "v5", {}, revision=3))
    known.put("PolicyRollout", None, stored("PolicyRollout", "to-v5", {"to": "v5"}, revision=4))
    context = PlacementContext(policy=Policy(name="v5", revision=3, rollout="to-v5"))
    listed = known.consulted.under(context).policies
    assert [(each.name, each.revision) for each in listed] == [("v5", 3), ("to-v5", 4)]
    known.put("PolicyRollout", stored("PolicyRollout", "to-v5", {"to": "v5"}, revision=4), None)
    assert [each.name for each in known.consulted.under(context).policies] == ["v5"]


def test_the_built_in_policy_is_no_object() -> None:
    assert ClusterView().consulted.under(PlacementContext()).policies == (Considered("builtin"),)


def about(chronicle: Chronicle, name: str) -> list[Decision]:
    made = [event.decision for event in chronicle.events if isinstance(event, DecisionMade)]
    return [decision for decision in made if decision.subject.name == name]


def test_a_woken_pod_names_the_change_that_woke_it_and_its_outcome_the_pod() -> None:
    chronicle = Chronicle()

    async def story(world: World) -> None:
        run_scheduler(world, "scheduler", names=("default-scheduler",))
        await world.apply(NODES, node("node-1"))
        await world.apply(QUOTAS, quota("default", cpu="1"))
        await world.apply(PODS, pod("first"))
        await world.sleep(2)
        await world.apply(PODS, pod("second"))
        await world.sleep(2)
        raised = await world.apply(QUOTAS, quota("default", cpu="2"))
        placed = Key("default", "second")
        await world.until(
            lambda: bool(lookup(world.get("pods", placed), "spec", "nodeName")),
            within_s=10,
            what="it is bound",
        )
        await world.sleep(1)
        waits, *_, bound = about(chronicle, "second")
        assert waits.quotas[0].decisive, "it waited for quota"
        revision = int(metadata(raised)["resourceVersion"])
        cause = bound.cause
        assert (cause.kind, cause.resource, cause.name, cause.revision) == (
            "event",
            QUOTAS.name,
            "default",
            revision,
        )
        assert max(bound.seen["TenantQuota"].revision, bound.seen["TenantQuota"].applied) >= revision
        outcomes = [event.outcome for event in chronicle.events if isinstance(event, Concluded)]
        (outcome,) = [outcome for outcome in outcomes if outcome.id == bound.id]
        assert outcome.object is not None
        assert (outcome.object.resource, outcome.object.name) == ("pods", "second")
        assert outcome.object.uid == bound.subject.uid
        assert outcome.revision > revision

    told(story, chronicle=chronicle)


def budget(name: str, app: str) -> Obj:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": spec,
    }


def test_a_preemption_records_the_budgets_of_its_victims_and_the_one_that_turned_it_elsewhere() -> None:
    """The checkers compare every revision with the store's. A budget of other pods is not listed."""
    chronicle = Chronicle()

    async def story(world: World) -> None:
        run_scheduler(world, "scheduler", names=("default-scheduler",))
        await world.apply(CLASSES, {"metadata": {"name": "high"}, "value": 1000})
        for number, app in enumerate(("guarded", "free"), start=1):
            await world.apply(NODES, node(f"node-{number}"))
            await world.apply(PODS, pod(app, cpu="3", labels={"app": app}))
            await world.sleep(2)
        budgets = [await world.apply(BUDGETS, budget(app, app)) for app in ("guarded", "free", "other")]
        # The controller of budgets is not here: `free` allows one disruption, the others none.
        status = {"metadata": {"uid": uid_of(budgets[1])}, "status": {"disruptionsAllowed": 1}}
        await world.api.patch(BUDGETS, "default", "free", status, subresource="status")
        await world.sleep(2)
        await world.apply(PODS, pod("urgent", cpu="3", high=True))
        await world.until(
            lambda: any(decision.verdict == "preempt" for decision in about(chronicle, "urgent")),
            within_s=20,
            what="it preempts",
        )

    told(story, chronicle=chronicle, checkers=[RecordsAreTrue()])
    (preemption,) = [decision for decision in about(chronicle, "urgent") if decision.verdict == "preempt"]
    assert [victim.partition(":")[0] for victim in preemption.victims] == ["default/free"]
    listed = [each for each in preemption.policies if each.resource == BUDGETS.name]
    assert [(each.name, each.decisive, each.revision > 0) for each in listed] == [
        ("guarded", True, True),
        ("free", False, True),
    ]
    assert list(considered_texts(preemption))[-1].startswith("budget free at ")


def test_a_route_that_another_one_overrules_has_that_one_on_record() -> None:
    chronicle = Chronicle()

    async def story(world: World) -> None:
        world.process("gateway", begin_gateway, account=User(accounts.GATEWAY))
        await world.apply(SERVICES, service("web"))
        await world.apply(ROUTES, route("web", 7))
        await world.sleep(2)
        await world.apply(ROUTES, {**route("web", 9), "metadata": {"name": "younger"}})
        await world.until(lambda: bool(about(chronicle, "younger")), within_s=20, what="it is judged")

    told(story, chronicle=chronicle, checkers=[RecordsAreTrue()])
    (judged,) = [decision for decision in about(chronicle, "younger") if decision.message == "AnotherHolds"]
    assert [(each.resource, each.name, each.decisive) for each in judged.policies] == [
        (ROUTES.name, "web", True)
    ]
    assert about(chronicle, "web")[0].policies == ()
