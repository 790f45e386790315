"""`fathom timeline` with a real API server, its audit log, and the journal of a scheduler."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.api.harness import Api
from tests.ask.processes import AskedProcess
from tests.cli.asking import PODS, Fathom, told
from tests.clients.running import Server, running

from fathom.cli.main import run
from fathom.cli.timeline import with_news
from fathom.explain.evidence import ObjectRef
from fathom.explain.timeline.timeline import Edge, Entry, Timeline
from fathom.model.cause import WakeCause
from fathom.model.decision import Decision, SeenVersions, Subject


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
    "words",
    [["pod"], ["ghost/x"], ["pod/x", "--since", "yesterday"]],
    ids=["no name", "no kind", "no duration"],
)
def test_wrong_use_exits_with_2(words: list[str], server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["timeline", *words, "--kubeconfig", str(server.kubeconfig)]) == 2
    assert capsys.readouterr().err.startswith("fathom: error: ")


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


def test_news_come_after_what_was_shown_and_keep_their_causes() -> None:
    def entry(id_: str, second: int, **more: Any) -> Entry:
        moment = f"2026-11-16T12:00:{second:02d}.000000Z"
        return Entry(id=id_, time=moment, source="audit", actor="a", text="does", **more)

    subject = ObjectRef("pods", "default", "web")
    folded = entry("b", 1, count=3, until="2026-11-16T12:00:03.000000Z")
    before = Timeline(subject=subject, entries=(entry("a", 0), folded))
    within, new = entry("b2", 2), entry("c", 4)
    after = Timeline(subject=subject, entries=(folded, within, new), edges=(Edge("a", "c", "woke"),))
    assert with_news(before, after) == (
        Timeline(subject=subject, entries=(entry("a", 0), folded, new), edges=(Edge("a", "c", "woke"),)),
        1,
    )
