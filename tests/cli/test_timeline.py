"""`fathom timeline` with a real API server, its audit log, and the journal of a scheduler."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import pytest
from tests.api.harness import Api
from tests.ask.processes import AskedProcess
from tests.cli.asking import PODS, Fathom, told
from tests.clients.running import Server, running

from fathom.cli.ask.following import FollowedTimeline
from fathom.cli.main import run
from fathom.explain.evidence import Gap, ObjectRef
from fathom.explain.timeline.timeline import Edge, Entry, Timeline
from fathom.model.cause import WakeCause
from fathom.model.decision import Decision, SeenVersions, Subject
from fathom.model.times import moment_ns


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("timeline")) as started:
        yield started


def pod_of(name: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "example.com/web:1"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def pod(server: Server, name: str) -> dict[str, Any]:
    created: dict[str, Any] = server.request("POST", PODS, pod_of(name))
    return created


def decided(obj: dict[str, Any], id_: str) -> Decision:
    """As a scheduler would have recorded it."""
    meta = obj["metadata"]
    subject = Subject("pods", "default", meta["name"], meta["uid"], 1)
    cause = WakeCause("event", "", "pods", "default", meta["name"], int(meta["resourceVersion"]))
    return Decision(
        id=id_, time_ns=time.time_ns(), controller="scheduler", subject=subject, verdict="unschedulable",
        cause=cause, nodes=3, seen={"Node": SeenVersions(7)}, message="0/3 nodes are available",
    )  # fmt: skip


def shown(server: Server, *words: str) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "fathom.cli", "timeline", *words, "-o", "json", "--kubeconfig"]
    done = subprocess.run(
        [*command, str(server.kubeconfig)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode in {0, 1}, done.stderr
    return done.returncode, json.loads(done.stdout)


def when_audited(server: Server, subject: str) -> dict[str, Any]:
    """The audit log is written a moment after the answer."""
    deadline = time.monotonic() + 20
    while True:
        _, timeline = shown(server, subject)
        audited = any(entry["source"] == "audit" for entry in timeline["entries"])
        if audited or time.monotonic() > deadline:
            return timeline


def test_a_pod_is_told_from_audit_log_journal_and_api(tmp_path: Path) -> None:
    async def dialogue(api: Api, scheduler: AskedProcess, fathom: Fathom) -> None:
        created = (await api.post(PODS, pod_of("web-1"))).obj
        scheduler.journal.decided(decided(created, "place-1"))
        api.audit.flush()
        code, out, err = await fathom("timeline", "pod/web-1", "-o", "json")
        assert code == 0, err
        timeline = json.loads(out)
        by_source = {entry["source"]: entry for entry in timeline["entries"]}
        write = f"write:{created['metadata']['resourceVersion']}:pods/default/web-1"
        assert timeline["subject"]["uid"] == created["metadata"]["uid"]
        assert by_source["decision"]["text"] == "finds no node for pod web-1: 0/3 nodes are available"
        assert {"cause": write, "effect": "decision:place-1", "kind": "woke"} in timeline["edges"]

    told(dialogue, tmp_path)


def test_a_namesake_has_a_timeline_of_its_own(tmp_path: Path) -> None:
    async def dialogue(api: Api, scheduler: AskedProcess, fathom: Fathom) -> None:
        first = (await api.post(PODS, pod_of("web-2"))).obj
        scheduler.journal.decided(decided(first, "place-2a"))
        await api.delete(f"{PODS}/web-2?gracePeriodSeconds=0")
        second = (await api.post(PODS, pod_of("web-2"))).obj
        scheduler.journal.decided(decided(second, "place-2b"))
        api.audit.flush()
        _, out, _ = await fathom("timeline", "pod/web-2", "-o", "json")
        entries = json.loads(out)["entries"]
        uids = {entry["object"]["uid"] for entry in entries if entry["object"]["name"] == "web-2"}
        assert uids == {second["metadata"]["uid"]}
        assert "decision:place-2b" in {entry["id"] for entry in entries}

    told(dialogue, tmp_path)


def test_text_names_the_object_and_who_wrote_it(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    created = pod(server, "web-3")
    when_audited(server, "pod/web-3")
    code = run(["timeline", "pod/web-3", "--kubeconfig", str(server.kubeconfig)])
    out = capsys.readouterr().out
    assert code == 0
    assert f"pod web-3 in default, generation 1, UID {created['metadata']['uid']}" in out.splitlines()[0]
    assert "creates pod web-3" in out


def test_nothing_on_record_exits_with_1(server: Server) -> None:
    code, timeline = shown(server, "pod/nobody")
    assert (code, timeline["entries"]) == (1, [])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pod"], "write the object as KIND/NAME, not 'pod'"),
        (["ghost/x"], "spec.subject: there is no kind 'ghost'"),
        (
            ["pod/x", "--since", "yesterday"],
            "spec.since must be a duration such as 10m, or an RFC 3339 time, not 'yesterday'",
        ),
        (
            ["pod/x", "--until", "noon"],
            "spec.at must be a revision, an RFC 3339 time or a duration, not 'noon'",
        ),
        (["pod/x", "-w", "--until", "7"], "--watch goes on for ever: it cannot be used with --at"),
    ],
    ids=["no name", "no kind", "no duration", "no end", "an end of what has none"],
)
def test_wrong_use_exits_with_2_and_says_what_is_wrong(
    words: list[str], message: str, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["timeline", *words, "--kubeconfig", str(server.kubeconfig)]) == 2
    assert capsys.readouterr().err == f"fathom: error: {message}\n"


def test_without_a_server_the_error_is_one_line_with_its_address(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = tmp_path / "kubeconfig"
    elsewhere.write_text(server.kubeconfig.read_text().replace(server.url, "https://127.0.0.1:1"))
    assert run(["timeline", "pod/x", "--kubeconfig", str(elsewhere)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("fathom: error: https://127.0.0.1:1 does not answer (")
    assert error.count("\n") == 1


def test_watching_shows_what_happens_next_and_ends_cleanly(server: Server) -> None:
    pod(server, "web-4")
    when_audited(server, "pod/web-4")
    command = [sys.executable, "-u", "-m", "fathom.cli", "timeline", "pod/web-4", "-w"]
    watching = subprocess.Popen(
        [*command, "--kubeconfig", str(server.kubeconfig)], stdout=subprocess.PIPE, text=True
    )
    assert watching.stdout is not None
    try:
        assert any("creates pod web-4" in line for line in iter(watching.stdout.readline, ""))
        server.patch(f"{PODS}/web-4", {"metadata": {"labels": {"team": "risk"}}})
        assert any("metadata.labels" in line for line in iter(watching.stdout.readline, ""))
        os.kill(watching.pid, signal.SIGINT)
        assert watching.wait(timeout=20) == 0
    finally:
        watching.kill()


def test_watching_goes_on_when_the_server_comes_back_and_shows_each_line_once(tmp_path: Path) -> None:
    with running(tmp_path) as first:
        port = str(urlsplit(first.url).port)
        pod(first, "web-5")
        when_audited(first, "pod/web-5")
        command = [sys.executable, "-u", "-m", "fathom.cli", "timeline", "pod/web-5", "-w"]
        watching = subprocess.Popen(
            [*command, "--kubeconfig", str(first.kubeconfig)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert watching.stdout is not None
        assert watching.stderr is not None
        lines: list[str] = []
        try:
            await_line(watching.stdout, "creates pod web-5", lines)
            first.patch(f"{PODS}/web-5", {"metadata": {"labels": {"team": "risk"}}})
            await_line(watching.stdout, "metadata.labels", lines)
        except BaseException:
            watching.kill()
            raise
    try:
        said = watching.stderr.readline()
        assert re.match(r"https://127\.0\.0\.1:\d+ does not answer \(.+; asking again\n", said), said
        with running(tmp_path, port=port) as second:
            second.patch(f"{PODS}/web-5", {"metadata": {"annotations": {"note": "back"}}})
            await_line(watching.stdout, "metadata.annotations", lines)
            os.kill(watching.pid, signal.SIGINT)
            assert watching.wait(timeout=20) == 0
        numbers = [line.split()[0] for line in lines if line[:4].strip().isdigit()]
        assert numbers == [str(number) for number in range(1, len(numbers) + 1)]
        assert len({line.split(maxsplit=2)[2] for line in lines[1:] if line[:4].strip().isdigit()}) == len(
            numbers
        )
        assert watching.stderr.read() == "", "it is said once"
    finally:
        watching.kill()


def await_line(stream: IO[str], part: str, lines: list[str]) -> None:
    """Reads until a line has this part, or the stream ends."""
    for line in iter(stream.readline, ""):
        lines.append(line)
        if part in line:
            return
    raise AssertionError(f"{part!r} did not come: {lines}")


SUBJECT = ObjectRef("pods", "default", "web")


def entry(id_: str, second: int, **more: Any) -> Entry:
    return Entry(id=id_, time=at(second), source="audit", actor="a", text="does", **more)


def at(second: int) -> str:
    return f"2026-11-16T12:00:{second:02d}.000000Z"


def news(second: int, *entries: Entry, **more: Any) -> Timeline:
    return Timeline(subject=SUBJECT, entries=entries, time=at(second), **more)


def test_news_come_after_what_was_shown_and_keep_their_causes() -> None:
    folded = entry("b", 1, count=3, until=at(3), also=("b2", "b3"))
    followed = FollowedTimeline(news(3, entry("a", 0), folded))
    answer = news(9, entry("b", 1), entry("b2", 2), entry("c", 4), edges=(Edge("a", "c", "woke"),))
    assert followed.add(answer) == (1, [])
    assert followed.timeline.entries == (entry("a", 0), folded, entry("c", 4))
    assert followed.newest(1) == news(9, entry("c", 4), edges=(Edge("a", "c", "woke"),))
    assert followed.add(answer) == (0, []), "each line once"


def test_news_wait_until_earlier_ones_have_arrived() -> None:
    followed = FollowedTimeline(news(3, entry("a", 0)))
    assert followed.add(news(5, entry("late", 5))) == (0, [])
    assert followed.add(news(7, entry("early", 4), entry("late", 5))) == (2, [])
    assert [each.id for each in followed.timeline.entries] == ["a", "early", "late"]


def test_owners_reports_of_their_status_are_no_news() -> None:
    report = entry("r", 4, role="owner", routine=True, object=ObjectRef("replicasets.apps", "default", "web"))
    assert FollowedTimeline(news(3, entry("a", 0))).add(news(9, report)) == (0, [])


def test_what_a_silent_process_did_is_asked_for_again() -> None:
    followed = FollowedTimeline(news(20, entry("a", 0)))
    silent = Gap("journal of deciders", "no answer within 2 s")
    assert followed.add(news(40, gaps=(silent,))) == (
        0,
        ["no data: journal of deciders: no answer within 2 s"],
    )
    assert followed.add(news(50, gaps=(silent,))) == (0, []), "a gap is said once"
    assert followed.since_ns == moment_ns(at(10))
    assert followed.add(news(59, entry("meanwhile", 30))) == (1, [])
    assert followed.since_ns == moment_ns(at(49))
