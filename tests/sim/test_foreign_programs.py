"""Programs that were not written for fathom, as processes of a world: what they see, and what is refused."""

from __future__ import annotations

import asyncio
import datetime
import importlib
import os
import queue
import random
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import kubernetes
import lightkube
import pytest
import requests
from lightkube.resources.core_v1 import ConfigMap

from fathom.model.objects import Key, Obj
from fathom.private_files import NotOurs
from fathom.sim.foreign import machine
from fathom.sim.foreign.imports import load_afresh
from fathom.sim.foreign.programs import run_program
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, LoseReply, Pause, Skew
from fathom.sim.world.scenario import Result, RunPlan, ScenarioRun, scenario
from fathom.sim.world.world import World

CONFIG_MAPS = "http://kubernetes/api/v1/namespaces/default/configmaps"
BEGAN = datetime.datetime(2026, 1, 1, 0, 0, 1, tzinfo=datetime.UTC)  # Servers take a second to be ready.

Story = Callable[[World], Awaitable[None]]


def run(story: Story, *faults: AnyFault, seed: str = "1") -> Result:
    of = scenario(Menu(processes=("program",)), name="story")(story)
    return ScenarioRun(of, RunPlan(scenario="story", seed=seed, faults=faults)).run()


def results_of(
    main: Callable[[list[Any]], Any], *faults: AnyFault, seed: str = "1", for_s: float = 100.0
) -> list[Any]:
    """What `main` put into its list, in a world of its own."""
    found: list[Any] = []

    async def story(world: World) -> None:
        run_program(world, "program", lambda: main(found))
        await world.sleep(for_s)

    result = run(story, *faults, seed=seed)
    assert result.violation is None, result.violation
    return found


# Time and chance.


def test_all_clocks_of_a_program_are_virtual() -> None:
    def main(found: list[Any]) -> None:
        found.append((time.time(), time.monotonic(), datetime.datetime.now(datetime.UTC)))
        found.append((datetime.date.today(), time.localtime().tm_year, time.strftime("%Y")))
        time.sleep(50)
        found.append(datetime.datetime.now(datetime.UTC) - BEGAN)

    assert results_of(main) == [
        (BEGAN.timestamp(), 1.0, BEGAN),
        (datetime.date(2026, 1, 1), 2026, "2026"),
        datetime.timedelta(seconds=50),
    ]


def test_each_program_has_a_clock_of_its_own() -> None:
    clocks: dict[str, float] = {}

    def main() -> None:
        time.sleep(10)
        # Afterwards the same is run without the step of the clock, to be compared with: the first counts.
        clocks.setdefault(socket.gethostname(), time.time())

    async def story(world: World) -> None:
        run_program(world, "program", main)
        run_program(world, "other", main)
        await world.sleep(20)

    assert run(story, Skew(at_s=5, target="program", skew_s=40)).violation is None
    assert clocks == {"program": BEGAN.timestamp() + 50, "other": BEGAN.timestamp() + 10}


def draws(found: list[Any]) -> None:
    found += [random.random(), random.Random().random(), random.SystemRandom().random()]
    found += [uuid.uuid4(), uuid.uuid1(), secrets.token_hex(4), os.urandom(4), os.getpid()]


def test_chance_follows_from_the_seed() -> None:
    assert results_of(draws) == results_of(draws)
    assert results_of(draws, seed="1")[:7] != results_of(draws, seed="2")[:7]


def test_outside_of_a_world_clocks_and_chance_are_real_again() -> None:
    results_of(draws)
    before = time.time()
    time.sleep(0.001)
    assert time.time() > before
    assert abs(datetime.datetime.now(datetime.UTC).timestamp() - time.time()) < 10
    assert random.Random().random() != random.Random().random()
    assert type(threading.Lock()).__module__ == "_thread"


def test_a_program_that_waits_for_the_clock_without_sleeping_sees_it_move() -> None:
    async def turning(found: list[Any]) -> None:
        until = asyncio.get_running_loop().time() + 0.01
        while asyncio.get_running_loop().time() < until:
            await asyncio.sleep(0)
        found.append("async")
        until = asyncio.get_running_loop().time() + 0.01
        while asyncio.get_running_loop().time() < until:
            pass
        found.append("async, without a pause")

    def main(found: list[Any]) -> Any:
        until = time.monotonic() + 0.01
        while time.monotonic() < until:
            pass
        found.append("blocking")
        return turning(found)

    assert results_of(main) == ["blocking", "async", "async, without a pause"]


STARTED_LATE = """
import queue, random, secrets, threading, time
from fathom.sim.testing import Menu, run_program, scenario
from fathom.sim.world.scenario import plan_of, tell

told = []

def main():
    began = time.monotonic()
    try:
        queue.Queue().get(timeout=5)
    except queue.Empty:
        told.append(time.monotonic() - began)
    done = threading.Event()
    threading.Timer(2, done.set).start()
    condition = threading.Condition()
    with condition:
        told.append(condition.wait_for(done.is_set, timeout=1))
    told.append((secrets.token_hex(4), random.SystemRandom().random()))

@scenario(Menu(processes=("program",), most=0))
async def late(world):
    "As every test does that applies a definition first."
    await world.sleep(1)
    run_program(world, "program", main)
    await world.sleep(50)

for _ in range(2):
    assert tell(late, plan_of(late, "1")).violation is None
assert told[:2] == [5.0, False], told
assert told[:3] == told[3:], told
before = time.monotonic()
time.sleep(0.001)
assert time.monotonic() > before
"""


@pytest.mark.live
def test_the_first_program_may_be_started_in_the_middle_of_a_scenario() -> None:
    """In an interpreter of its own: modules that hold clocks by other names (`queue`, `threading`, `random`)
    get the program's whenever the first one is started."""
    subprocess.run([sys.executable, "-c", STARTED_LATE], check=True, timeout=120)


# What tells a program that it is being tested.


def test_a_program_does_not_see_the_runner_of_its_test() -> None:
    def main(found: list[Any]) -> None:
        found.append([name for name in ("pytest", "unittest", "_pytest.config") if name in sys.modules])
        found.append("PYTEST_CURRENT_TEST" in os.environ)
        importlib.import_module("unittest")
        time.sleep(1)
        found.append([name for name in ("pytest", "unittest") if name in sys.modules])

    before = importlib.import_module("unittest")
    assert results_of(main) == [["_pytest.config"], False, ["unittest"]]
    assert (sys.modules["pytest"], sys.modules["unittest"]) == (pytest, before)


# Threads.


def test_threads_wait_for_each_other_in_virtual_time() -> None:
    def main(found: list[Any]) -> None:
        done, box, lock = threading.Event(), queue.Queue[str](), threading.Lock()

        def work() -> None:
            with lock:
                time.sleep(7)
            box.put(threading.current_thread().name)
            done.set()

        worker = threading.Thread(target=work, name="worker")
        worker.start()
        found.append((done.wait(5), time.monotonic()))
        with lock:
            found.append(("lock", time.monotonic()))
        found.append((box.get(), worker.is_alive()))
        worker.join()
        found.append((worker.is_alive(), threading.current_thread() is threading.main_thread()))

    assert results_of(main) == [(False, 6.0), ("lock", 8.0), ("worker", False), (False, True)]


def test_an_executor_runs_its_work_in_virtual_time() -> None:
    def main(found: list[Any]) -> None:
        def work(seconds: float) -> float:
            time.sleep(seconds)
            return time.monotonic()

        with ThreadPoolExecutor(2) as executor:
            found += executor.map(work, [3, 1, 2])

    assert results_of(main) == [4.0, 2.0, 4.0]


def test_a_blocking_call_in_a_coroutine_blocks_that_event_loop_alone() -> None:
    async def main(found: list[Any]) -> None:
        ticks: list[float] = []

        async def tick() -> None:
            while True:
                ticks.append(asyncio.get_running_loop().time())
                await asyncio.sleep(1)

        threading.Timer(1.5, lambda: found.append(time.monotonic())).start()
        ticking = asyncio.create_task(tick())
        await asyncio.sleep(0.5)
        time.sleep(10)
        await asyncio.sleep(0.1)
        ticking.cancel()
        found.append(ticks)

    assert results_of(main) == [2.5, [1.0, 11.5]]


def test_event_loops_in_threads_run_side_by_side() -> None:
    async def nap(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return asyncio.get_running_loop().time()

    def main(found: list[Any]) -> None:
        threads = [threading.Thread(target=lambda s=s: found.append(asyncio.run(nap(s)))) for s in (3, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert results_of(main) == [3.0, 4.0]


# HTTP, by every way that libraries take.


def by_requests() -> Obj:
    return requests.get("http://10.96.0.1/version", timeout=9).json()  # type: ignore[no-any-return]


def by_httpx() -> Obj:
    return httpx.get("http://kubernetes.default.svc/version").json()  # type: ignore[no-any-return]


async def by_async_httpx() -> Obj:
    async with httpx.AsyncClient() as client:
        return (await client.get("http://kubernetes.default.svc/version")).json()  # type: ignore[no-any-return]


async def by_aiohttp() -> Obj:
    async with aiohttp.ClientSession() as session, session.get("http://kubernetes/version") as answer:
        return await answer.json()  # type: ignore[no-any-return]


async def by_streams() -> Obj:
    reader, writer = await asyncio.open_connection("kubernetes.default", 80)
    writer.write(b"GET /version HTTP/1.1\r\nHost: kubernetes\r\nConnection: close\r\n\r\n")
    text = (await reader.read()).decode()
    assert text.startswith("HTTP/1.1 200 OK\r\n")
    return {"major": text.partition('"major":"')[2][:1]}


def versions_told_by(ask: Callable[[], Any]) -> list[Any]:
    """What a program that asks the API server for its version is told."""

    def main(found: list[Any]) -> Any:
        answer = ask()
        if not asyncio.iscoroutine(answer):
            found.append(answer["major"])
            return None

        async def later() -> None:
            found.append((await answer)["major"])

        return later()

    return results_of(main)


@pytest.mark.parametrize("ask", [by_requests, by_httpx, by_async_httpx, by_aiohttp, by_streams])
def test_every_http_client_reaches_the_api_server(ask: Callable[[], Any]) -> None:
    assert versions_told_by(ask) == ["1"]


def test_the_official_client_watches_while_it_blocks() -> None:
    def writes() -> None:
        time.sleep(20)
        core().create_namespaced_config_map("default", {"metadata": {"name": "late"}})

    def main(found: list[Any]) -> None:
        threading.Thread(target=writes).start()
        stream = kubernetes.watch.Watch().stream(
            core().list_namespaced_config_map, "default", timeout_seconds=40
        )
        found += [(event["type"], event["object"].metadata.name, int(time.monotonic())) for event in stream]

    assert results_of(main) == [("ADDED", "late", 21)]


def core() -> Any:
    kubernetes.config.load_kube_config()
    return kubernetes.client.CoreV1Api()


def test_a_lost_answer_breaks_the_connection_and_the_write_is_there() -> None:
    async def story(world: World) -> None:
        run_program(world, "program", main)
        await world.sleep(60)
        assert world.get("configmaps", Key("default", "card")) is not None

    def main() -> None:
        try:
            requests.post(CONFIG_MAPS, json={"metadata": {"name": "card"}})
        except requests.ConnectionError as error:
            errors.append(("Connection reset by peer" in str(error), round(time.monotonic())))

    errors: list[Any] = []
    assert run(story, LoseReply(at_s=0, target="program", match="POST ")).violation is None
    assert errors == [(True, 31)]


def test_a_client_with_a_deadline_of_its_own_gives_up_first() -> None:
    async def main(found: list[Any]) -> None:
        try:
            async with httpx.AsyncClient(timeout=7) as client:
                await client.post(CONFIG_MAPS, json={"metadata": {"name": "card"}})
        except httpx.ReadTimeout:
            found.append(round(time.monotonic()))

    assert results_of(main, LoseReply(at_s=0, target="program", match="POST ")) == [8]


def test_lightkube_creates_applies_and_lists() -> None:
    async def main(found: list[Any]) -> None:
        client = lightkube.AsyncClient(field_manager="program")
        card = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "card"}}
        await client.create(ConfigMap.from_dict(card), namespace="default")
        await client.apply(ConfigMap.from_dict({**card, "data": {"a": "1"}}), namespace="default")
        found += [(one.metadata.name, one.data) async for one in client.list(ConfigMap, namespace="default")]

    assert results_of(main) == [("card", {"a": "1"})]


@pytest.mark.filterwarnings("ignore:Kubernetes version")
def test_kr8s_blocks_on_an_event_loop_in_a_thread_of_its_own() -> None:
    def main(found: list[Any]) -> None:
        import kr8s

        found += [item.name for item in kr8s.get("namespaces", "default")]

    assert results_of(main) == ["default"]


def test_a_host_that_the_world_does_not_have_cannot_be_resolved() -> None:
    def main(found: list[Any]) -> None:
        try:
            requests.get("http://example.com/", timeout=5)
        except requests.ConnectionError as error:
            found.append("the world has no host 'example.com', only its API server" in str(error))

    assert results_of(main) == [True]


# Crashes, signals, exits.


def test_a_crashed_program_starts_anew_and_runs_no_finally() -> None:
    told: list[str] = []

    def main() -> None:
        told.append(f"starts as {os.getpid()}")
        try:
            time.sleep(1000)
        finally:
            told.append("cleans up")

    async def story(world: World) -> None:
        run_program(world, "program", main)
        await world.sleep(5)
        world.crash("program", restart_after_s=3)
        await world.sleep(5)
        assert told == ["starts as 101", "starts as 102"]

    assert run(story).violation is None


def test_a_paused_program_goes_on_where_it_was_and_its_clock_went_on() -> None:
    def main(found: list[Any]) -> None:
        for _ in range(3):
            time.sleep(1)
            found.append(time.monotonic())

    assert results_of(main, Pause(at_s=1.5, target="program", for_s=10)) == [2.0, 12.5, 13.5]


def test_stopping_sends_sigterm_to_handlers_of_both_sorts() -> None:
    told: list[Any] = []

    def blocking() -> None:
        signal.signal(signal.SIGTERM, lambda number, frame: told.append(("blocking", number)))
        time.sleep(1000)

    async def looping() -> None:
        asked = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
        await asked.wait()
        told.append("looping")

    async def story(world: World) -> None:
        run_program(world, "blocking", blocking)
        run_program(world, "looping", looping)
        await world.sleep(5)
        world.stop("blocking", grace_s=60)
        world.stop("looping", grace_s=60)
        await world.sleep(5)

    assert run(story).violation is None
    assert told == [("blocking", signal.SIGTERM), "looping"]


def test_a_program_that_raises_is_started_again_and_one_that_returns_is_not() -> None:
    starts: list[float] = []

    def main() -> None:
        starts.append(time.monotonic())
        if len(starts) < 3:
            raise RuntimeError("no")

    async def story(world: World) -> None:
        run_program(world, "program", main)
        await world.sleep(100)

    assert run(story).violation is None
    assert starts == [1.0, 11.0, 21.0]


def test_each_start_imports_the_modules_of_the_program_again(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("starts = []\n")
    program = tmp_path / "program.py"
    program.write_text("import beside, time\nbeside.starts.append(1)\ncount = len(beside.starts)\n")
    counts: list[int] = []

    def main() -> None:
        counts.append(load_afresh(program).count)
        time.sleep(1000)

    async def story(world: World) -> None:
        run_program(world, "program", main)
        await world.sleep(5)
        world.crash("program", restart_after_s=3)
        await world.sleep(5)

    assert run(story).violation is None
    assert counts == [1, 1]


# Refusals.


def starts_a_process() -> None:
    subprocess.run(["true"], check=False)


def starts_a_raw_thread() -> None:
    import _thread

    _thread.start_new_thread(print, ())


def sets_an_alarm() -> None:
    signal.alarm(3)


@pytest.mark.parametrize(
    ("main", "name", "to_do"),
    [
        (starts_a_process, "subprocess.Popen", "Let the test answer for it, operator.command"),
        (starts_a_raw_thread, "_thread.start_new_thread", "start it with threading.Thread"),
        (sets_an_alarm, "signal.alarm", "use threading.Timer"),
    ],
)
def test_what_no_two_runs_would_share_is_refused_by_name(
    main: Callable[[], None], name: str, to_do: str
) -> None:
    said: list[str] = []

    def told() -> None:
        try:
            main()
        except RuntimeError as error:
            said.append(str(error))

    async def story(world: World) -> None:
        run_program(world, "program", told)
        await world.sleep(5)

    result = run(story)
    assert result.violation is not None
    assert result.violation.invariant == "code reaches the outside only through its seam"
    assert result.violation.message.startswith(f"{name} was called:\n")
    assert f"in {main.__name__}" in result.violation.message
    assert to_do in said[0]
    assert f"What to do: {said[0].partition(': ')[2]}." in result.violation.message


def test_what_a_program_prints_is_kept_and_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    async def story(world: World) -> None:
        process = run_program(world, "program", lambda: sys.stdout.write("hello\n"))
        await world.sleep(1)
        assert [list(machine.output.lines) for machine in process.machines] == [["hello"]]  # type: ignore[attr-defined]

    assert run(story).violation is None
    assert capsys.readouterr().out == ""


def test_environments_are_apart() -> None:
    def main(found: list[Any]) -> None:
        found.append(os.environ["HOSTNAME"])
        os.environ["ONLY_HERE"] = "1"

    assert results_of(main) == ["program"]
    assert "ONLY_HERE" not in os.environ


IMPORTS_LATE = """
import random
from fathom.sim.testing import Menu, scenario
from fathom.sim.world.scenario import plan_of, tell

drawn = []

@scenario(Menu(processes=("program",), most=0))
async def late(world):
    "The first import of what runs programs is in the middle of the story."
    await world.sleep(1)
    from fathom.sim.testing import run_program
    run_program(world, "program", lambda: drawn.append(random.choices("ab", k=8)))
    await world.sleep(5)

assert tell(late, plan_of(late, "1")).violation is None
print(len(drawn))
"""


@pytest.mark.live
def test_a_scenario_may_import_what_runs_programs_when_it_runs() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", IMPORTS_LATE], capture_output=True, text=True, timeout=120, check=False
    )
    assert (ran.stdout, ran.stderr) == ("1\n", "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a folder of another user")
def test_temporary_files_are_not_put_into_another_users_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chown(tmp_path, 65534, 65534)
    monkeypatch.setattr(machine, "OWN_TEMPORARY_FOLDERS", tmp_path)

    def main(found: list[Any]) -> None:
        try:
            tempfile.gettempdir()
        except NotOurs as error:
            found.append(str(error))

    (refused,) = results_of(main)
    assert str(tmp_path) in refused
    assert list(tmp_path.iterdir()) == []
