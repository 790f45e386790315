"""Recorded decisions as objects of the API: who has them, who may read them, and who did not answer."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.api.harness import JANE, Api, pod
from tests.ask.processes import OWN, AskedProcess, asked_server
from tests.security.people import grant, namespaces

from fathom.api.auth.certificates import Pki
from fathom.ask import views
from fathom.model.decision import Decision, Outcome, RecordedVerdicts, Roster, Subject
from fathom.record.journal import DiskJournal

TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


def decision(id_: str, name: str, **changes: object) -> Decision:
    fields: dict[str, object] = {
        "id": id_,
        "time_ns": 1_700_000_000_000_000_000 + int(id_.rpartition("-")[2], 16),
        "controller": "scheduler",
        "subject": Subject("pods", "default", name, f"uid-of-{name}"),
        "verdict": "bind",
        "node": "node-1",
    }
    return Decision(**{**fields, **changes})  # type: ignore[arg-type]  # the builder's own fields


def outcome(id_: str, revision: int) -> Outcome:
    return Outcome(id=id_, time_ns=1_700_000_000_000_000_001, result="committed", revision=revision)


def asked(story: Callable[[Api, AskedProcess], Awaitable[None]], data: Path) -> None:
    """Run a story with a scheduler that can be asked."""

    async def main() -> None:
        async with asked_server(data) as (api, pki):
            scheduler = AskedProcess("deciders", "scheduler", data / "journal" / "scheduler", pki)
            await scheduler.start(api)
            try:
                await story(api, scheduler)
            finally:
                await scheduler.stop()
                scheduler.journal.close()

    asyncio.run(main())


def names(answer_items: list[dict[str, dict[str, str]]]) -> list[str]:
    return [item["metadata"]["name"] for item in answer_items]


def test_decisions_of_all_processes_are_listed_in_the_namespace_of_their_subject(tmp_path: Path) -> None:
    async def story(api: Api, scheduler: AskedProcess) -> None:
        scheduler.journal.decided(decision("a-1", "web-1"))
        scheduler.journal.concluded(outcome("a-1", 42))
        scheduler.journal.decided(decision("a-3", "db-1", subject=Subject("pods", "team", "db-1")))
        own = DiskJournal(tmp_path / "journal" / "housekeeping")
        own.decided(decision("b-2", "", controller="housekeeping", subject=Subject("nodes", "", "node-9")))
        own.close()
        everywhere = await api.get(f"{OWN}/decisions")
        assert names(everywhere.obj["items"]) == ["a-1", "b-2", "a-3"]
        in_default = await api.get(f"{OWN}/namespaces/default/decisions")
        assert names(in_default.obj["items"]) == ["a-1"]
        (web,) = in_default.obj["items"]
        assert web["kind"] == "Decision"
        assert web["status"]["process"] == "deciders"
        assert web["status"]["result"] == "committed"
        assert web["status"]["outcomes"][0]["revision"] == 42
        of_nodes = await api.get(f"{OWN}/namespaces/fathom-system/decisions")
        assert names(of_nodes.obj["items"]) == ["b-2"]
        assert of_nodes.obj["items"][0]["status"]["process"] == "housekeeping"

    asked(story, tmp_path)


def test_a_table_of_decisions_has_its_columns(tmp_path: Path) -> None:
    async def story(api: Api, scheduler: AskedProcess) -> None:
        scheduler.journal.decided(decision("a-1", "web-1"))
        scheduler.journal.concluded(outcome("a-1", 42))
        answer = await api.get(f"{OWN}/namespaces/default/decisions", headers=TABLE)
        columns = [column["name"] for column in answer.obj["columnDefinitions"]]
        assert columns == [
            "Name", "Object", "Controller", "Verdict", "Result", "Node", "Cause", "Message", "Age",
        ]  # fmt: skip
        (row,) = answer.obj["rows"]
        assert row["cells"][:6] == ["a-1", "pods/web-1", "scheduler", "bind", "committed", "node-1"]

    asked(story, tmp_path)


def test_one_decision_is_read_by_its_id_with_every_nodes_reason(tmp_path: Path) -> None:
    async def story(api: Api, scheduler: AskedProcess) -> None:
        scheduler.journal.tabled(Roster(id="r", names=("node-1", "node-2")))
        scheduler.journal.tabled(
            RecordedVerdicts(id="v", roster="r", reasons=("", "full"), codes=zlib.compress(bytes([0, 1])))
        )
        scheduler.journal.decided(decision("a-1", "web-1", verdicts="v"))
        answer = await api.get(f"{OWN}/namespaces/default/decisions/a-1")
        assert answer.status == 200
        assert answer.obj["status"]["nodes"] == {"node-1": "", "node-2": "full"}
        assert (await api.get(f"{OWN}/namespaces/default/decisions/a-2")).status == 404
        await api.post("/api/v1/nodes", {"kind": "Node", "metadata": {"name": "without-agent"}})
        assert (await api.get(f"{OWN}/namespaces/default/decisions/a-2")).status == 404
        assert (await api.get(f"{OWN}/namespaces/team/decisions/a-1")).status == 404

    asked(story, tmp_path)


def test_a_user_of_one_namespace_sees_only_its_decisions_and_no_names_of_nodes(tmp_path: Path) -> None:
    async def story(api: Api, scheduler: AskedProcess) -> None:
        await namespaces(api, "team")
        await grant(api, "jane", "view", "team")
        await api.post("/api/v1/nodes", {"metadata": {"name": "node-1"}})
        await api.post("/api/v1/nodes", {"metadata": {"name": "node-2"}})
        scheduler.journal.tabled(Roster(id="r", names=("node-1", "node-2")))
        scheduler.journal.tabled(
            RecordedVerdicts(id="v", roster="r", reasons=("", "full"), codes=zlib.compress(bytes([0, 1])))
        )
        scheduler.journal.decided(decision("a-1", "web-1"))
        mine = decision(
            "a-2",
            "db-1",
            subject=Subject("pods", "team", "db-1"),
            verdicts="v",
            scores={"node-1": 9},
            agent="node-1",
            actions=("bind db-1 to node-1",),
            victims=("team/old: lower priority", "default/web-0: lower priority"),
        )
        scheduler.journal.decided(mine)
        scheduler.journal.decided(decision("a-3", "", subject=Subject("nodes", "", "node-1")))
        everywhere = await api.get(f"{OWN}/decisions", token=JANE)
        assert names(everywhere.obj["items"]) == ["a-2"]
        assert (await api.get(f"{OWN}/namespaces/default/decisions/a-1", token=JANE)).status == 404
        answer = await api.get(f"{OWN}/namespaces/team/decisions/a-2", token=JANE)
        assert answer.status == 200
        assert "node-1" not in str(answer.obj)
        assert "web-0" not in str(answer.obj)
        assert answer.obj["status"]["reasons"] == {"full": 1}
        assert answer.obj["spec"]["victims"] == ["team/old: lower priority", "1 pods of other namespaces"]
        full = await api.get(f"{OWN}/namespaces/team/decisions/a-2")
        assert full.obj["spec"]["scores"] == {"node-1": 9}

    asked(story, tmp_path)


def test_a_field_selector_names_one_object(tmp_path: Path) -> None:
    async def story(api: Api, scheduler: AskedProcess) -> None:
        for number in range(1, 9):
            scheduler.journal.decided(decision(f"a-{number}", f"web-{number % 2}"))
        chosen = "spec.subject.resource=pods,spec.subject.name=web-1"
        answer = await api.get(f"{OWN}/namespaces/default/decisions?fieldSelector={chosen}")
        assert names(answer.obj["items"]) == ["a-1", "a-3", "a-5", "a-7"]
        newest = await api.get(f"{OWN}/namespaces/default/decisions?limit=3")
        assert names(newest.obj["items"]) == ["a-6", "a-7", "a-8"]
        assert (await api.get(f"{OWN}/decisions?fieldSelector=spec.nonsense=1")).status == 400

    asked(story, tmp_path)


@asynccontextmanager
async def agents(api: Api, pki: Pki, data: Path, *nodes: str) -> AsyncIterator[list[AskedProcess]]:
    """Agents that can be asked, by their nodes."""
    running = [AskedProcess(node, "agent", data / "journal" / node, pki) for node in nodes]
    try:
        for agent in running:
            await agent.start_as_agent(api)
        yield running
    finally:
        for agent in running:
            await agent.stop()
            agent.journal.close()


async def run_on(api: Api, node: str, namespace: str, name: str) -> None:
    running = pod(name)
    running["spec"]["nodeName"] = node
    assert (await api.post(f"/api/v1/namespaces/{namespace}/pods", running)).status == 201


def test_a_namespaces_list_has_decisions_of_the_agents_that_run_its_pods(tmp_path: Path) -> None:
    async def main() -> None:
        async with asked_server(tmp_path) as (api, pki), agents(api, pki, tmp_path, "n1", "n2") as (n1, n2):
            await namespaces(api, "team")
            await run_on(api, "n1", "team", "db-1")
            mine, other = Subject("pods", "team", "db-1"), Subject("pods", "default", "web-1")
            n1.journal.decided(decision("a-1", "", controller="agent", subject=mine))
            n1.journal.decided(decision("a-2", "", controller="agent", subject=other))
            n2.journal.decided(decision("b-3", "", controller="agent", subject=Subject("nodes", "", "n2")))
            listed = await api.get(f"{OWN}/namespaces/team/decisions")
            (item,) = listed.obj["items"]
            assert (item["metadata"]["name"], item["status"]["process"]) == ("a-1", "agent of n1")
            assert "warning" not in listed.headers
            assert names((await api.get(f"{OWN}/namespaces/fathom-system/decisions")).obj["items"]) == ["b-3"]
            assert names((await api.get(f"{OWN}/decisions")).obj["items"]) == ["a-1", "a-2", "b-3"]

    asyncio.run(main())


def test_a_list_says_how_many_agents_were_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "AGENTS_ASKED_MAX", 1)

    async def main() -> None:
        async with asked_server(tmp_path) as (api, pki), agents(api, pki, tmp_path, "n1", "n2"):
            for name in ("n1", "n2"):
                await run_on(api, name, "default", f"on-{name}")
            listed = await api.get(f"{OWN}/namespaces/default/decisions")
            assert "of 2 agents concerned 1 were asked" in listed.headers["warning"]

    asyncio.run(main())


def test_a_warning_names_no_node_to_who_may_not_read_nodes(tmp_path: Path) -> None:
    async def main() -> None:
        async with asked_server(tmp_path) as (api, pki), agents(api, pki, tmp_path, "n1") as (agent,):
            await namespaces(api, "team")
            await grant(api, "jane", "view", "team")
            await run_on(api, "n1", "team", "db-1")
            await agent.stop()
            path = f"{OWN}/namespaces/team/decisions"
            assert "no data from the journal of agent of n1" in (await api.get(path)).headers["warning"]
            warning = (await api.get(path, token=JANE)).headers["warning"]
            assert "no data from the journal of agent of a node" in warning
            assert "n1" not in warning

    asyncio.run(main())


def test_a_process_that_does_not_answer_is_no_data_and_not_an_empty_list(tmp_path: Path) -> None:
    async def story(api: Api, scheduler: AskedProcess) -> None:
        scheduler.journal.decided(decision("a-1", "web-1"))
        await scheduler.stop()
        answer = await api.get(f"{OWN}/namespaces/default/decisions")
        assert (answer.status, answer.obj["items"]) == (200, [])
        assert "no data from the journal of deciders" in answer.headers["warning"]
        one = await api.get(f"{OWN}/namespaces/default/decisions/a-1")
        assert (one.status, "no data from the journal of deciders" in one.obj["message"]) == (503, True)

    asked(story, tmp_path)


def test_a_process_with_another_certificate_than_the_published_one_is_not_believed(tmp_path: Path) -> None:
    async def main() -> None:
        async with asked_server(tmp_path) as (api, pki):
            stranger = AskedProcess("deciders", "scheduler", tmp_path / "journal" / "scheduler", pki)
            stranger.journal.decided(decision("a-1", "web-1"))
            await stranger.start(api, certificate=pki.ca_pem.decode())
            try:
                answer = await api.get(f"{OWN}/namespaces/default/decisions")
                assert answer.obj["items"] == []
                assert "certificate" in answer.headers["warning"]
            finally:
                await stranger.stop()
                stranger.journal.close()

    asyncio.run(main())
