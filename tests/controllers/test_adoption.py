"""Adopting and letting go, by the real controllers on a real server in a simulated world."""

from __future__ import annotations

from tests.control.worlds import told

from fathom.control.ownership import controller_of
from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.job.controller import JOB_NAME, Jobs
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.objects import Key, Obj, lookup, metadata, uid_of
from fathom.model.resources import DEPLOYMENTS, JOBS, PODS, REPLICA_SETS
from fathom.model.well_known import JOB_TRACKING_FINALIZER
from fathom.sim.scenarios.jobs import job
from fathom.sim.scenarios.objects import replica_set, template
from fathom.sim.scenarios.staff import come_to_rest, run_managers_and_agents
from fathom.sim.scenarios.workloads import deployment
from fathom.sim.world.world import World


def names(world: World) -> list[str]:
    return [str(metadata(pod)["name"]) for pod in world.list("pods", "default")]


def owner(world: World, name: str) -> str:
    pod = world.get("pods", Key("default", name))
    return str((controller_of(pod or {}) or {}).get("name", ""))


def bare(name: str) -> Obj:
    made = template("web")
    return {"metadata": {"name": name, "labels": made["metadata"]["labels"]}, "spec": made["spec"]}


def test_a_pod_that_matches_is_adopted_and_counts() -> None:
    async def story(world: World) -> None:
        await world.apply(PODS, bare("stray"))
        run_managers_and_agents(world, ReplicaSets)
        await world.apply(REPLICA_SETS, replica_set("web", 2))
        await come_to_rest(world)
        assert (names(world), owner(world, "stray")) == (["stray", "web-0"], "web")

    told(story)


def test_a_pod_that_is_relabelled_is_let_go_and_replaced() -> None:
    async def story(world: World) -> None:
        run_managers_and_agents(world, ReplicaSets)
        await world.apply(REPLICA_SETS, replica_set("web", 2))
        await come_to_rest(world)
        await world.api.patch(PODS, "default", "web-0", {"metadata": {"labels": {"app": "debug"}}})
        await come_to_rest(world)
        assert names(world) == ["web-0", "web-1", "web-2"]
        assert [owner(world, name) for name in names(world)] == ["", "web", "web"]

    told(story)


def test_what_was_orphaned_is_adopted_by_the_next_of_the_name() -> None:
    async def story(world: World) -> None:
        run_managers_and_agents(world, Deployments, ReplicaSets)
        await world.apply(DEPLOYMENTS, deployment("web", 2))
        await come_to_rest(world)
        before = {metadata(pod)["uid"] for pod in world.list("pods", "default")}
        old = world.get(DEPLOYMENTS.name, Key("default", "web"))
        assert old is not None
        await world.api.delete(DEPLOYMENTS, "default", "web", uid=uid_of(old), policy="Orphan")
        await come_to_rest(world)
        assert world.get(DEPLOYMENTS.name, Key("default", "web")) is None
        await world.apply(DEPLOYMENTS, deployment("web", 2))
        await come_to_rest(world)
        assert {metadata(pod)["uid"] for pod in world.list("pods", "default")} == before
        found = world.get(DEPLOYMENTS.name, Key("default", "web"))
        assert lookup(found, "status", "availableReplicas") == 2

    told(story)


def test_a_name_that_is_somebody_elses_is_worked_around() -> None:
    async def story(world: World) -> None:
        stranger = bare("web-0")
        stranger["metadata"]["labels"] = {"app": "other"}
        await world.apply(PODS, stranger)
        run_managers_and_agents(world, ReplicaSets)
        await world.apply(REPLICA_SETS, replica_set("web", 2))
        await come_to_rest(world)
        assert names(world) == ["web-0", "web-1", "web-2"]
        assert owner(world, "web-0") == ""

    told(story)


# Jobs.


async def at_work(world: World) -> None:
    run_managers_and_agents(world, Jobs, kinds=("/pods", "/jobs"))
    await world.apply(JOBS, job("sum", completions=9, parallelism=2, runs_s=10**6))
    await come_to_rest(world)


def finalizers(world: World, name: str) -> list[str]:
    return list(lookup(world.get("pods", Key("default", name)), "metadata", "finalizers") or ())


def test_a_jobs_pod_that_lost_its_owner_is_adopted_again() -> None:
    async def story(world: World) -> None:
        await at_work(world)
        await world.api.patch(PODS, "default", "sum-0", {"metadata": {"ownerReferences": None}})
        await come_to_rest(world)
        assert (names(world), owner(world, "sum-0")) == (["sum-0", "sum-1"], "sum")

    told(story)


def test_a_jobs_pod_that_is_relabelled_is_let_go_and_no_longer_waits_to_be_counted() -> None:
    async def story(world: World) -> None:
        await at_work(world)
        labels = dict.fromkeys(lookup(world.get("pods", Key("default", "sum-0")), "metadata", "labels"))
        await world.api.patch(PODS, "default", "sum-0", {"metadata": {"labels": labels}})
        await come_to_rest(world)
        assert [owner(world, name) for name in names(world)] == ["", "sum", "sum"]
        assert (finalizers(world, "sum-0"), finalizers(world, "sum-1")) == ([], [JOB_TRACKING_FINALIZER])

    told(story)


def test_a_pod_that_no_job_will_have_does_not_wait_to_be_counted() -> None:
    async def story(world: World) -> None:
        await at_work(world)
        stray = bare("stray")
        stray["metadata"] |= {"labels": {JOB_NAME: "gone"}, "finalizers": [JOB_TRACKING_FINALIZER]}
        await world.apply(PODS, stray)
        await come_to_rest(world)
        assert finalizers(world, "stray") == []

    told(story)
