"""Questions about the past that the store has forgotten: answered from the tape of a real scheduler."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.api.harness import ADMIN, JANE, Api, pod
from tests.ask.processes import OWN, AskedProcess
from tests.ask.test_explanations import WHERE, node, question
from tests.cli.asking import Fathom, told
from tests.security.people import grant, namespaces

from fathom.client.server_address import ServerAddress
from fathom.model.objects import Obj
from fathom.record.past_objects import state_at
from fathom.record.tape import DiskTape, reels
from fathom.schedule.loop.live import run_scheduler_live
from fathom.schedule.loop.process import SchedulerSettings

PODS = "/api/v1/namespaces/default/pods"
WITHIN_S = 60.0
pytestmark = pytest.mark.live


@asynccontextmanager
async def recorded_scheduler(url: str, asked: AskedProcess, directory: Path) -> AsyncIterator[None]:
    """A real scheduler, connected over HTTP, whose endpoint serves its tape."""
    credentials = (("authorization", f"Bearer {ADMIN}"),)
    server = ServerAddress(url, ssl.create_default_context(), lambda: credentials)
    tape, stop = DiskTape(directory), asyncio.Event()
    asked.registry.part("scheduler").keep_tape(directory)
    running = asyncio.create_task(
        run_scheduler_live(SchedulerSettings(drain_s=1.0), server, stop, tape=tape, journal=asked.journal)
    )
    try:
        yield
    finally:
        stop.set()
        await running
        tape.close()


async def until(check: Callable[[], Awaitable[Any]]) -> Any:
    deadline = time.monotonic() + WITHIN_S
    while not (answer := await check()):
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.05)
    return answer


async def is_bound(api: Api, name: str) -> Obj | None:
    got = (await api.get(f"{PODS}/{name}")).obj
    return got if got.get("spec", {}).get("nodeName") else None


async def until_on_tape(directory: Path, revision: int) -> None:
    """Every kind that the scheduler follows has been received up to the revision."""

    async def is_there() -> bool:
        state = await asyncio.to_thread(state_at, "scheduler", reels(directory), revision)
        return len(state.kinds) >= 12 and all(kind.revision == revision for kind in state.kinds.values())

    await until(is_there)


async def forget(api: Api) -> None:
    """The store compacts its history."""
    api.audit.flush()
    await api.core.store.compact(api.core.cache.reached)


def gated(name: str) -> Obj:
    made = pod(name)
    made["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    return made


def without_source(answer: Obj) -> Obj:
    return {name: value for name, value in answer.items() if name not in {"asOf", "gaps"}}


def test_what_the_store_has_forgotten_is_answered_from_the_tape_and_the_answer_is_the_same(
    tmp_path: Path,
) -> None:
    tape = tmp_path / "tapes" / "scheduler"

    async def dialogue(api: Api, asked: AskedProcess, fathom: Fathom) -> None:
        await api.post("/api/v1/nodes", node("node-1"))
        early = api.core.cache.reached
        async with recorded_scheduler(api_url(tmp_path), asked, tape):
            large = pod("large")
            large["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "64"}}
            await api.post(PODS, large)
            made = await api.post(PODS, gated("web-1"))
            then = made.obj["metadata"]["resourceVersion"]
            await until_on_tape(tape, int(then))
            await api.patch(f"{PODS}/web-1", {"spec": {"schedulingGates": None}})
            await until(lambda: is_bound(api, "web-1"))
            await api.delete(f"{PODS}/large")
            await until_on_tape(tape, api.core.cache.reached)
            api.audit.flush()

            from_store = [await api.post(WHERE, question(name, at=then)) for name in ("web-1", "large")]
            assert [answer.obj["status"]["asOf"]["source"] for answer in from_store] == ["store", "store"]
            as_of = from_store[0].obj["status"]["asOf"]
            await forget(api)
            from_tape = [await api.post(WHERE, question(name, at=then)) for name in ("web-1", "large")]
            for before, after in zip(from_store, from_tape, strict=True):
                assert after.status == 201, after.obj
                assert after.obj["status"]["asOf"] == {
                    **before.obj["status"]["asOf"],
                    "source": "tape",
                    "tapes": ["scheduler"],
                }
                assert without_source(after.obj["status"]) == without_source(before.obj["status"])
            assert "example.com/wait" in str(from_tape[0].obj["status"])

            by_time = await api.post(WHERE, question("web-1", at=as_of["time"]))
            assert by_time.obj["status"]["asOf"]["source"] == "tape", by_time.obj
            assert "example.com/wait" in str(by_time.obj["status"])
            now = await api.post(WHERE, question("web-1"))
            assert "example.com/wait" not in str(now.obj["status"])

            code, out, _ = await fathom("why", "pod/web-1", "--at", then)
            assert code == 1
            assert f"as of revision {then} at {as_of['time']}, from the tape of scheduler" in out
            code, out, _ = await fathom("status", "pod/large", "--at", then)
            assert code == 1
            assert "from the tape of scheduler" in out
            assert "pending replica: large" in out
            code, out, _ = await fathom("timeline", "pod/web-1", "--at", then)
            assert code == 0
            assert "from the tape of scheduler" in out
            assert "creates" in out
            assert "binds" not in out

            gone = await api.post(WHERE, question("web-1", at=str(early)))
            assert (gone.status, gone.reason) == (410, "Expired")
            oldest = state_at("scheduler", reels(tape), api.core.cache.reached).oldest
            assert oldest is not None
            message = str(gone.obj["message"])
            assert f"no data: the store has forgotten revision {early}, and no tape contains it" in message
            assert f"the oldest is the tape of scheduler, from revision {oldest.revision}" in message
            code, _, err = await fathom("why", "pod/web-1", "--at", str(early))
            assert code == 2
            assert "no data: the store has forgotten" in err

    told(dialogue, tmp_path)


def test_kinds_that_no_tape_has_are_said_to_be_unknown_and_never_to_be_absent(tmp_path: Path) -> None:
    tape = tmp_path / "tapes" / "scheduler"

    async def dialogue(api: Api, asked: AskedProcess, fathom: Fathom) -> None:
        await api.post("/api/v1/nodes", node("node-1"))
        service = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}], "selector": {"app": "x"}}}
        await api.post("/api/v1/namespaces/default/services", service)
        async with recorded_scheduler(api_url(tmp_path), asked, tape):
            made = await api.post(PODS, pod("web-1"))
            then = made.obj["metadata"]["resourceVersion"]
            await until(lambda: is_bound(api, "web-1"))
            await until_on_tape(tape, api.core.cache.reached)
            await forget(api)
            about = {"kind": "Service", "name": "web"}
            answer = await api.post(WHERE, question("", subject=about, at=then))
            assert (answer.status, answer.reason) == (410, "Expired")
            assert "no tape has services" in str(answer.obj["message"])
            of_pod = await api.post(WHERE, question("web-1", at=then))
            assert of_pod.status == 201
            unknown = [gap["why"] for gap in of_pod.obj["status"]["gaps"] if gap["source"] == "tapes"]
            assert len(unknown) == 1
            assert unknown[0].startswith("no tape has ")

    told(dialogue, tmp_path)


def test_an_answer_from_the_tape_is_for_those_who_may_get_the_subject(tmp_path: Path) -> None:
    tape = tmp_path / "tapes" / "scheduler"

    async def dialogue(api: Api, asked: AskedProcess, fathom: Fathom) -> None:
        await namespaces(api, "team")
        await grant(api, "jane", "view", "team")
        await api.post("/api/v1/nodes", node("secretnode-1"))
        async with recorded_scheduler(api_url(tmp_path), asked, tape):
            await api.post(PODS, pod("web-1"))
            large = pod("mine")
            large["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "64"}}
            made = await api.post("/api/v1/namespaces/team/pods", large)
            then = made.obj["metadata"]["resourceVersion"]
            await until(lambda: is_bound(api, "web-1"))
            await api.delete("/api/v1/nodes/secretnode-1")
            await until_on_tape(tape, api.core.cache.reached)
            await forget(api)
            assert (await api.post(WHERE, question("web-1", at=then), token=JANE)).status == 403
            where = f"{OWN}/namespaces/team/explanations"
            mine = await api.post(where, question("mine", at=then), token=JANE)
            assert mine.status == 201, mine.obj
            assert mine.obj["status"]["asOf"]["source"] == "tape"
            assert "secretnode" not in str(mine.obj)

    told(dialogue, tmp_path)


def test_a_timeline_that_ends_before_every_record_of_objects_says_that_it_used_those_of_now(
    tmp_path: Path,
) -> None:
    async def dialogue(api: Api, asked: AskedProcess, fathom: Fathom) -> None:
        made = await api.post(PODS, pod("web-1"))
        then = made.obj["metadata"]["resourceVersion"]
        await api.patch(f"{PODS}/web-1", {"metadata": {"labels": {"tier": "front"}}})
        await forget(api)
        about = {"subject": {"kind": "Pod", "name": "web-1"}, "at": then}
        head = {"kind": "Timeline", "apiVersion": "fathom.dev/v1alpha1"}
        answer = await api.post(f"{OWN}/namespaces/default/timelines", {**head, "spec": about})
        assert answer.status == 201, answer.obj
        assert "asOf" not in answer.obj["status"]
        (gap,) = [gap for gap in answer.obj["status"]["gaps"] if gap["source"] == "objects"]
        assert "no tape has any state" in gap["why"]
        assert gap["why"].endswith("those of now were used")
        writes = [entry for entry in answer.obj["status"]["entries"] if entry["source"] == "audit"]
        assert [entry["revision"] for entry in writes] == [int(then)]

    told(dialogue, tmp_path)


def api_url(data: Path) -> str:
    """Of the server that the commands of the dialogue use."""
    config = json.loads((data / "kubeconfig-of-commands").read_text())
    return str(config["clusters"][0]["cluster"]["server"])
