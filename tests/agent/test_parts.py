"""Small parts of the agent: probes' thresholds, whose a socket is, addresses, statuses, logs."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import socket
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.agent.objects import T0, WELL, alive, container, ended, over, pod, s

from fathom.agent import shim
from fathom.agent.addresses import candidates, next_address
from fathom.agent.container_slots import Slot
from fathom.agent.container_views import ContainerTrouble, ContainerView, Health, Views, containers_of
from fathom.agent.host import probes
from fathom.agent.host.limits import find_means, remove_groups
from fathom.agent.host.logs import LogFilter, LogOptions, older_files, read_log
from fathom.agent.host.machine import RANGE, claim_range
from fathom.agent.host.sockets import (
    PROC,
    SocketOwner,
    SocketVerdict,
    from_tables,
    listeners,
    listening,
    whose,
)
from fathom.agent.host.usage import UsageEntry, UsageSample, rated, usage_of
from fathom.agent.probing import ProbeTally, judge
from fathom.agent.runtime import ContainerRun, Exit, ProbeResult
from fathom.agent.settings import Script
from fathom.agent.simulated import script_of
from fathom.agent.status import PodPlace, pod_status, terminated
from fathom.model.objects import Obj

# Probes.


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ("", None), ("+", True), ("-", None), ("--", None), ("---", False), ("--+", True), ("---+", True),
        ("+--", True), ("+---", False), ("-+--", True),
    ],
)  # fmt: skip
def test_a_verdict_needs_as_many_results_in_a_row_as_the_probe_asks_for(
    results: str, expected: bool | None
) -> None:
    tally = ProbeTally()
    for result in results:
        tally = judge(tally, result == "+", {"failureThreshold": 3})
    assert tally.verdict is expected


def test_successes_can_be_asked_for_in_a_row_too() -> None:
    probe, tally, verdicts = {"successThreshold": 2, "failureThreshold": 1}, ProbeTally(), []
    for ok in (True, False, True, True, False):
        tally = judge(tally, ok, probe)
        verdicts.append(tally.verdict)
    assert verdicts == [None, False, False, True, False]


# Sockets.

OURS = frozenset({7})
IP = "127.130.0.2"


@pytest.mark.parametrize(
    ("found", "ours", "words"),
    [
        ([SocketOwner(IP, 80, 7)], True, ""),
        ([SocketOwner(IP, 80, 8)], False, "answered by a process outside this pod"),
        ([SocketOwner("0.0.0.0", 80, 7)], True, "listens on every address"),
        ([SocketOwner("::", 80, 7)], True, "listens on every address"),
        ([SocketOwner("0.0.0.0", 80, 8)], False, "another process listens on that port at every address"),
        ([SocketOwner("0.0.0.0", 80, 7), SocketOwner(IP, 80, 8)], False, "outside this pod"),
        ([SocketOwner("0.0.0.0", 80, 8), SocketOwner(IP, 80, 7)], True, ""),
        ([SocketOwner("127.130.0.3", 80, 7)], False, "no process of this pod listens"),
        ([], False, "no process of this pod listens"),
    ],
)  # fmt: skip
def test_whose_socket_would_answer(found: list[SocketOwner], ours: bool, words: str) -> None:
    verdict = whose(IP, 80, found, OURS)
    assert verdict.ours is ours
    assert words in verdict.message + verdict.note
    assert bool(words) or verdict == SocketVerdict(True)


def test_the_kernels_tables_are_read_as_they_are_written(tmp_path: Path) -> None:
    net = tmp_path / "net"
    net.mkdir()
    head = (
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    )
    rest = "00000000:00000000 00:00000000 00000000     0        0"
    (net / "tcp").write_text(
        f"{head}   0: 0200827F:1F90 00000000:0000 0A {rest} 4711 1 0\n"
        f"   1: 0200827F:1F90 0100007F:9999 01 {rest} 4712 1 0\n"
    )
    (net / "tcp6").write_text(f"{head}   0: {'0' * 32}:1F90 {'0' * 32}:0000 0A {rest} 4713 1 0\n")
    assert listeners(8080, tmp_path) == [SocketOwner(IP, 8080, 4711), SocketOwner("::", 8080, 4713)]
    assert listeners(80, tmp_path) == []


def test_asked_who_listens_the_kernel_says_what_its_tables_say() -> None:
    with socket.create_server(("127.130.0.2", 0)) as server:
        port = server.getsockname()[1]
        mine = SocketOwner("127.130.0.2", port, os.fstat(server.fileno()).st_ino)
        assert mine in listeners(port)
        assert mine in from_tables(PROC)
        assert mine.address in listening()
    assert mine not in listeners(port)


# Addresses.


def test_addresses_go_round_and_skip_who_is_there() -> None:
    taken = {"127.130.0.2", "127.130.0.4"}
    assert next_address("127.130.0", set()) == "127.130.0.2"
    assert next_address("127.130.0", taken) == "127.130.0.3"
    assert next_address("127.130.0", taken, "127.130.0.3") == "127.130.0.5"
    assert next_address("127.130.0", taken, "127.130.0.254") == "127.130.0.3"
    assert next_address("127.130.0", {f"127.130.0.{n}" for n in range(255)}) is None


def test_a_range_that_was_spoiled_is_chosen_anew(tmp_path: Path) -> None:
    (tmp_path / "range").write_bytes(b"\xff spoiled")
    claimed = claim_range(tmp_path, "n1")
    claimed.lock.close()
    assert (tmp_path / "range").read_text() == claimed.pod_range
    assert RANGE.fullmatch(claimed.pod_range)


def test_ranges_are_all_different_and_away_from_services() -> None:
    found = list(candidates("node-1"))
    assert len(set(found)) == len(found) == 127 * 256
    assert {one.split(".")[1] for one in found} == {str(high) for high in range(128, 255)}
    assert next(candidates("node-1")) == found[0] != next(candidates("node-2"))


# Status.

PLACE = PodPlace("127.130.0.2", "127.130.0.1")


def brief(of: Obj, views: Views, *, now: float = 0, over_: bool = False) -> tuple[str, dict[str, str], Obj]:
    """Phase, conditions and the first container's state."""
    status = pod_status(of, views, PLACE, now_ns=s(now), over=over_)
    conditions = {one["type"]: one["status"] for one in status["conditions"]}
    return status["phase"], conditions, status["containerStatuses"][0]["state"]


READY = {
    "Starting": "True",
    "Initialized": "True",
    "ContainersReady": "True",
    "Ready": "True",
    "PodScheduled": "True",
}
UNREADY = {**READY, "ContainersReady": "False", "Ready": "False"}


def test_a_pod_on_its_way() -> None:
    began = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    assert brief(pod(), {}) == ("Pending", UNREADY, waiting)
    assert brief(pod(), {"main": alive(health=Health(started=True))}) == ("Running", UNREADY, began)
    assert brief(pod(), {"main": alive()}) == ("Running", READY, began)


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_somebody_has_declared_ended_stays_so_while_its_containers_are_stopped(phase: str) -> None:
    ended = {**pod(), "status": {"phase": phase}}
    assert brief(ended, {"main": alive()})[0] == phase
    assert brief(ended, {"main": alive()}, over_=True)[0] == phase


def test_init_containers_hold_it_up() -> None:
    whole = pod(container(), init=(container("prepare"),))
    phase, conditions, state = brief(whole, {"prepare": alive("prepare")})
    assert (phase, conditions["Initialized"]) == ("Pending", "False")
    assert state == {"waiting": {"reason": "PodInitializing"}}


def test_what_an_init_container_kept_from_starting_still_waits_when_the_pod_has_failed() -> None:
    whole = pod(container(), init=(container("prepare"),), policy="Never")
    views = {"prepare": over(1, "prepare")}
    status = pod_status(whole, views, PodPlace("127.130.0.2", "127.130.0.1"), now_ns=s(5), over=True)
    assert (status["phase"], status["containerStatuses"][0]["state"]) == (
        "Failed",
        {"waiting": {"reason": "PodInitializing"}},
    )


def test_a_pod_that_is_over_stays_initialized_when_its_sidecars_have_ended() -> None:
    """The status of a pod that has ended is written once: else the pod could never be let go."""
    sidecar = container("side", restartPolicy="Always")
    deleted = {"deletionTimestamp": "2026-01-01T00:00:02Z", "deletionGracePeriodSeconds": 1}
    whole = pod(container(), container("second"), init=(sidecar,), policy="Never", metadata=deleted)
    views = {"side": over(143, "side"), "second": over(0, "second")}
    initialized = {"type": "Initialized", "status": "True"}
    before = {**whole, "status": {"phase": "Pending", "conditions": [initialized]}}
    first = pod_status(before, views, PLACE, now_ns=s(5), over=True)
    assert {one["type"]: one["status"] for one in first["conditions"]}["Initialized"] == "True"
    assert pod_status({**whole, "status": first}, views, PLACE, now_ns=s(5), over=True) == first


def test_all_that_a_command_says_is_read_and_its_beginning_kept() -> None:
    async def read() -> bytes:
        stream, output = asyncio.StreamReader(), bytearray()
        reading = asyncio.ensure_future(probes.read_output(stream, output))
        for piece in (b"cat: ", b"/pod/ok: ", b"No such file", b"x" * probes.OUTPUT_BYTES_MAX):
            stream.feed_data(piece)
            await asyncio.sleep(0)
        stream.feed_eof()
        await reading
        return bytes(output)

    said = asyncio.run(read())
    assert (said[:27], len(said)) == (b"cat: /pod/ok: No such filex", probes.OUTPUT_BYTES_MAX)


def test_a_crash_loop_is_waiting_with_what_happened_as_its_last_state() -> None:
    view = ContainerView(run=ended(1, attempt=2, crashes=2, after=3))
    status = pod_status(pod(), {"main": view}, PLACE, now_ns=s(5))
    said = status["containerStatuses"][0]
    assert said["state"] == {
        "waiting": {
            "reason": "CrashLoopBackOff",
            "message": "back-off 20s restarting failed container=main pod=web_default(u1)",
        }
    }
    assert said["lastState"]["terminated"] == {
        "exitCode": 1, "reason": "Error", "startedAt": "2026-01-01T00:00:00Z",
        "finishedAt": "2026-01-01T00:00:03Z", "containerID": "process://u1/main/2",
    }  # fmt: skip
    assert (said["restartCount"], said["ready"], status["phase"]) == (2, False, "Running")


def test_a_container_that_was_stopped_for_its_probe_says_so_in_its_status() -> None:
    """Its exit code is that of a crash; only the agent knows why it ended."""

    async def ask(run: ContainerRun, probe: Obj) -> ProbeResult:
        return ProbeResult(False)

    first = containers_of(pod(container("main")))[0]
    slot = Slot(first, ask, lambda type_, reason, message: None, lambda: None, rng=random.Random(1))
    begun = alive("main")
    assert begun.run is not None
    slot.began(begun.run)
    slot.sicken("Container main failed liveness probe, will be restarted: HTTP 500", "LivenessProbeFailed")
    slot.ended(msgspec.structs.replace(begun.run, exit=Exit(143, T0)))
    assert slot.view.run is not None
    told = terminated(slot.view.run)
    assert (told["exitCode"], told["reason"], told["message"]) == (
        143, "LivenessProbeFailed", "Container main failed liveness probe, will be restarted: HTTP 500",
    )  # fmt: skip


def test_how_it_ended() -> None:
    never = pod(policy="Never")
    assert brief(never, {"main": over(0)}, over_=True)[0] == "Succeeded"
    assert brief(never, {"main": over(2)}, over_=True)[0] == "Failed"
    deleted = pod(metadata={"deletionTimestamp": "2026-01-01T00:00:30Z"})
    assert brief(deleted, {"main": over(143)}, over_=True)[0] == "Failed"
    assert brief(deleted, {"main": over(0)}, over_=True)[0] == "Succeeded"


def test_the_starting_condition_says_what_holds_it_up() -> None:
    def said(view: ContainerView) -> tuple[str, str]:
        status = pod_status(pod(), {"main": view}, PLACE, now_ns=s(0))
        found = next(one for one in status["conditions"] if one["type"] == "Starting")
        return found["reason"], found.get("message", "")

    waiting = Health(started=True, said="readiness probe failed: connection refused")
    assert said(ContainerView(trouble=ContainerTrouble("ErrImageNeverPull", "no command", T0))) == (
        "ErrImageNeverPull", "main: no command")  # fmt: skip
    assert said(alive(health=waiting)) == (
        "WaitingForProbe",
        "main: readiness probe failed: connection refused",
    )
    assert said(alive(health=Health(started=True))) == ("ProbePending", "main: no probe has passed yet")
    assert said(alive()) == ("Started", "")
    assert said(over(1)) == ("CrashLoopBackOff", "main ended with code 1")


@pytest.mark.parametrize(("code", "reason"), [(0, "Completed"), (1, "Error")])
def test_a_container_that_has_ended_for_good_is_no_crash_loop(code: int, reason: str) -> None:
    wanted = pod(container("done"), container("other"), policy="Never")
    views = {"done": over(code, "done"), "other": alive("other")}
    status = pod_status(wanted, views, PLACE, now_ns=s(9))
    found = next(one for one in status["conditions"] if one["type"] == "Starting")
    assert (found["reason"], found["message"]) == (reason, f"done ended with code {code}")


def test_what_others_wrote_is_kept_and_times_move_only_with_the_status() -> None:
    first = pod_status(pod(), {"main": alive()}, PLACE, now_ns=s(0))
    bound = {"type": "Bound", "status": "True", "lastTransitionTime": "2025-12-31T23:59:59Z"}
    before = {**first, "conditions": [bound, *first["conditions"]], "qosClass": "BestEffort"}
    again = pod_status(pod(status=before), {"main": alive()}, PLACE, now_ns=s(60))
    assert again == before
    sick = alive(health=Health(started=True))
    later = pod_status(pod(status=before), {"main": sick}, PLACE, now_ns=s(60))
    ready = next(one for one in later["conditions"] if one["type"] == "Ready")
    assert (ready["status"], ready["lastTransitionTime"]) == ("False", "2026-01-01T00:01:00Z")


def test_readiness_gates_are_waited_for() -> None:
    gated = pod(spec={"readinessGates": [{"conditionType": "x/ok"}]})
    assert brief(gated, {"main": alive()})[1]["Ready"] == "False"
    gated["status"] = {"conditions": [{"type": "x/ok", "status": "True"}]}
    assert brief(gated, {"main": alive(health=WELL)})[1]["Ready"] == "True"


# Scripts, usage.


def test_a_pods_script_changes_the_default_and_nonsense_changes_nothing() -> None:
    default = Script(image_s=3.0)

    def script(**annotations: str) -> Script:
        return script_of(pod(metadata={"annotations": annotations}), default)

    assert script(**{"fathom.dev/simulated": '{"fail": "crash"}'}) == Script(image_s=3.0, fail="crash")
    assert script(**{"fathom.dev/runs-seconds": "5"}) == Script(image_s=3.0, runs_s=5.0)
    for wrong in ("{", "[]", '{"fail": "loudly"}', '{"image_s": "x"}'):
        assert script(**{"fathom.dev/simulated": wrong}) == default


def test_usage_counts_the_family_and_the_buried_but_not_the_shim() -> None:
    table = {
        10: UsageEntry(1, 999, 50, 9_000), 11: UsageEntry(10, 100, 20, 1_000), 12: UsageEntry(11, 30, 0, 500),
        13: UsageEntry(1, 7, 7, 7),
    }  # fmt: skip
    assert usage_of(10, table, 5) == UsageSample(5, 50 + 100 + 20 + 30, 1_500)
    used = rated("main", UsageSample(0, 0, 1), UsageSample(2_000_000_000, 500_000_000, 4096))
    assert (used.cpu_nano, used.memory_bytes) == (250_000_000, 4096)


# Logs.


def test_lines_are_shown_whole_chosen_and_stamped() -> None:
    lines = [b"2026-01-01T00:00:01.000000001Z stdout P long ", b"2026-01-01T00:00:01.5Z stdout F line",
             b"2026-01-01T00:00:02.000000000Z stderr F oops"]  # fmt: skip

    def shown(**options: object) -> bytes:
        one = LogFilter(LogOptions(**options))  # type: ignore[arg-type]  # as a test says
        return b"".join(text for line in lines if (text := one.shown(line)) is not None)

    assert shown() == b"long line\noops\n"
    assert shown(stream="stderr") == b"oops\n"
    assert shown(since="2026-01-01T00:00:02.000000Z") == b"oops\n"
    assert shown(timestamps=True).startswith(b"2026-01-01T00:00:01.000000001Z long line\n2026")


def test_full_logs_are_rotated_and_the_oldest_goes(tmp_path: Path) -> None:
    log = shim.ContainerLog(str(tmp_path / "log"), 200, 3)
    for number in range(40):
        log.write("stdout", b"line %d\n" % number)
    log.close()
    assert [one.name for one in older_files(tmp_path, 0)] == ["log.2", "log.1"]
    numbers = [int(line.rpartition(b" ")[2]) for line in asyncio.run(read_all(tmp_path)).splitlines()]
    assert numbers == list(range(numbers[0], 40))
    assert 5 <= len(numbers) < 40


def test_a_log_that_cannot_be_rotated_goes_on(tmp_path: Path) -> None:
    (tmp_path / "log.2/in-the-way").mkdir(parents=True)
    log = shim.ContainerLog(str(tmp_path / "log"), 200, 3)
    for number in range(40):
        log.write("stdout", b"line %d\n" % number)
    kept = [line for name in ("log.1", "log") for line in (tmp_path / name).read_text().splitlines()]
    assert [int(line.rpartition(" ")[2]) for line in kept] == list(range(40))


def test_a_full_disk_costs_lines_and_leaves_whole_those_that_come_after(tmp_path: Path) -> None:
    log = shim.ContainerLog(str(tmp_path / "log"), 1 << 20, 3)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        for number in range(10):
            log.write("stdout", b"lost %d\n" % number)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    log.write("stdout", b"kept\n")
    raw = (tmp_path / "log").read_bytes()
    assert len(raw.splitlines()[0]) > 40
    assert raw.splitlines()[-1].endswith(b" stdout F kept")


def test_the_last_words_are_as_many_lines_and_bytes_as_kubelet_takes(tmp_path: Path) -> None:
    log = shim.ContainerLog(str(tmp_path / "log"), 1800, 5)
    for number in range(200):
        log.write("stdout", b"line %d\n" % number)
    assert shim.last_words(str(tmp_path / "log")).splitlines()[-30:] == [f"line {n}" for n in range(170, 200)]
    whole = shim.ContainerLog(str(tmp_path / "whole"), 1 << 20, 5)
    for number in range(200):
        whole.write("stdout", b"line %d\n" % number)
    assert shim.last_words(str(tmp_path / "whole")).splitlines() == [f"line {n}" for n in range(120, 200)]
    whole.write("stdout", b"x" * 20_000 + b"\n")
    assert shim.last_words(str(tmp_path / "whole")) == "x" * 2047


def test_the_last_lines_are_whole_ones(tmp_path: Path) -> None:
    log = shim.ContainerLog(str(tmp_path / "log"), 1 << 20, 3)
    log.write("stdout", b"one\n" + b"x" * 40_000 + b"\ntwo\n")
    log.close()
    assert asyncio.run(read_all(tmp_path, tail=2)) == b"x" * 40_000 + b"\ntwo\n"
    assert asyncio.run(read_all(tmp_path, tail=1)) == b"two\n"
    assert asyncio.run(read_all(tmp_path, tail=0)) == b""


async def read_all(directory: Path, **options: int) -> bytes:
    over = iter([False] * 3 + [True] * 100)
    return b"".join([chunk async for chunk in read_log(directory, LogOptions(**options), lambda: next(over))])  # type: ignore[arg-type]  # as a test says


def test_a_log_that_is_written_and_rotated_while_it_is_followed_is_told_once_and_whole(
    tmp_path: Path,
) -> None:
    log = shim.ContainerLog(str(tmp_path / "log"), 3000, 50)

    async def followed() -> bytes:
        async def write() -> None:
            for number in range(300, 900):
                log.write("stdout", b"line %d\n" % number)
                if number % 10 == 0:
                    await asyncio.sleep(0.001)
            log.close()

        for number in range(300):
            log.write("stdout", b"line %d\n" % number)
        writing = asyncio.create_task(write())
        reading = read_log(tmp_path, LogOptions(follow=True), writing.done)
        return b"".join([chunk async for chunk in reading])

    said = [int(line.rpartition(b" ")[2]) for line in asyncio.run(followed()).splitlines()]
    assert said == list(range(900))


@pytest.mark.live
def test_groups_that_another_user_made_are_no_means_of_limiting(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for controller in ("cpu", "memory"):
        (tmp_path / controller / "fathom" / "n1").mkdir(parents=True)
        (tmp_path / controller / "fathom" / "n1").chmod(0o555)
    assert as_nobody(tmp_path, lambda place: find_means("n1", place).kind) == ""
    for controller in ("cpu", "memory"):
        (tmp_path / controller / "fathom" / "n1").chmod(0o777)
    assert as_nobody(tmp_path, lambda place: find_means("n1", place).kind) == "v1"


def as_nobody(place: Path, ask: Callable[[Path], str]) -> str:
    """In a process without root's rights, which would be let in everywhere."""
    told_r, told_w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.chdir(place)  # Directories above are closed to it.
        if os.getuid() == 0:
            os.setuid(65534)
        os.write(told_w, ask(Path()).encode())
        os._exit(0)
    os.close(told_w)
    os.waitpid(pid, 0)
    with os.fdopen(told_r) as told:
        return told.read()


# Groups of processes.


def test_groups_that_an_agent_of_another_user_made_are_left_alone(tmp_path: Path) -> None:
    """As an unprivileged agent on a machine where one of root ran before, with a strict umask."""
    others = tmp_path / "pids" / "fathom"
    (others / "n1" / "uid").mkdir(parents=True)
    others.chmod(0)
    user = os.geteuid()
    os.seteuid(user or 65534)
    try:
        remove_groups("n1/uid", tmp_path)
    finally:
        os.seteuid(user)
    others.chmod(0o700)
    assert (others / "n1" / "uid").is_dir()
