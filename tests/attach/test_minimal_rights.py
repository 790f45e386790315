"""The roles that are installed are enough: whoever has exactly these copies the cluster, and schedules."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.api.harness import JANE
from tests.attach.foreign import NODES, PODS, Foreign, foreign
from tests.attach.scheduled import config_of_jane, granted
from tests.cli.asking import node, pod

from fathom.attach.findings import findings_of, is_possible, readable
from fathom.attach.installed import objects_to_install
from fathom.attach.kinds import MIRRORED
from fathom.attach.rights import observing, scheduling
from fathom.attach.survey import survey
from fathom.cli.cluster.scheduler import run_scheduler
from fathom.client.once import api_of
from fathom.record.journal import DiskJournal, read_journal
from fathom.record.journals import journal_directory

RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.mark.slow
def test_an_observer_with_the_installed_role_reads_every_kind(tmp_path: Path) -> None:
    async def main() -> None:
        async with foreign(tmp_path) as cluster, api_of(cluster.address(JANE)) as api:
            await granted(cluster, objects_to_install(observe_only=True))
            rights = [*observing(), *scheduling()]
            seen = await survey(api, cluster.url, rights)
            assert is_possible(findings_of(seen, observe_only=True))
            assert readable(seen) == [kind for kind in MIRRORED if kind.kind != "SchedulerOverride"]
            writes = {right for right in scheduling() if not set(right.verbs) <= {"get", "list", "watch"}}
            policies = {right for right in scheduling() if right.object_name}
            assert seen.denied == writes | policies

    asyncio.run(main())


def test_a_scheduler_with_the_installed_role_binds_pods_one_by_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with foreign(tmp_path / "foreign") as cluster:
            await granted(cluster, objects_to_install(observe_only=False))
            await cluster.api.post(NODES, node("node-1", "4"))
            for name, cpu, scheduler in (("a", "1", "fathom"), ("b", "9", "fathom"), ("c", "1", "other")):
                made = pod(name, cpu)
                wanted = {**made, "spec": {**made["spec"], "schedulerName": scheduler}}
                assert (await cluster.api.post(PODS, wanted)).status == 201
            await scheduled(cluster, tmp_path)

    (tmp_path / "foreign").mkdir()
    asyncio.run(main())


async def events_of_both(cluster: Foreign) -> bool:
    events = (await cluster.api.get("/api/v1/namespaces/default/events")).obj["items"]
    about_pods = {event["reason"] for event in events if event["involvedObject"]["kind"] == "Pod"}
    return about_pods == {"Scheduled", "FailedScheduling"}


async def scheduled(cluster: Foreign, tmp_path: Path) -> None:
    config = config_of_jane(cluster, tmp_path)
    journal, stop = DiskJournal(journal_directory(tmp_path, "scheduler-fathom")), asyncio.Event()
    running = asyncio.create_task(
        run_scheduler(config, stop, journal=journal, names=("fathom",), data=tmp_path)
    )

    async def decided() -> bool:
        first, second, third = [(await cluster.api.get(f"{PODS}/{name}")).obj for name in "abc"]
        assert not third["spec"].get("nodeName")
        told = [each for each in second["status"].get("conditions") or () if each["type"] == "PodScheduled"]
        return first["spec"].get("nodeName") == "node-1" and bool(told)

    await cluster.api.eventually(decided, timeout_s=30)
    second = (await cluster.api.get(f"{PODS}/b")).obj
    (condition,) = [each for each in second["status"]["conditions"] if each["type"] == "PodScheduled"]
    assert condition["message"].startswith("0/1 nodes are available: 1 Insufficient cpu")
    await cluster.api.eventually(lambda: events_of_both(cluster), timeout_s=30)
    stop.set()
    await asyncio.wait_for(running, 30)
    journal.close()
    records = {
        kept.decision.subject.name: kept.decision.verdict
        for kept in read_journal(journal_directory(tmp_path, "scheduler-fathom"))
    }
    assert records == {"a": "bind", "b": "unschedulable"}
    lease = await cluster.api.get(
        "/apis/coordination.k8s.io/v1/namespaces/fathom-system/leases/scheduler-fathom"
    )
    assert not lease.obj["spec"].get("holderIdentity")  # Released.
