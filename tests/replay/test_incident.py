"""An incident under load, with a process killed in it: exported, replayed, changed, patched, continued."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from tests.replay.living import ENVIRONMENT, ROOT
from tests.replay.recorded_world import ClusterTimes, record_incident

from fathom.cli.main import run
from fathom.model.conditions import is_true
from fathom.model.times import micro_timestamp
from fathom.record.incident_file import open_incident

SEED = 82219
PATCH = """from fathom.controllers.replicaset import plan

plan.BURST_PODS_MAX = {burst}
"""


# The controllers decided about the Deployment, both runs of the scheduler about its pods.
TAPES_OF_WEB = [("controllers", 1), ("scheduler", 1), ("scheduler", 2)]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("incident") / "data"
    times = record_incident(directory)
    (directory / "times.json").write_text(json.dumps([times.began_ns, times.ended_ns]))
    return directory


def times_of(data: Path) -> ClusterTimes:
    return ClusterTimes(*json.loads((data / "times.json").read_text()))


@pytest.fixture(scope="module")
def file(data: Path) -> Path:
    """Everything about the Deployment web: the controllers and the scheduler decided about it."""
    out = data.parent / "web.incident"
    if not out.exists():
        export(data, out, "deployment/web")
    return out


def export(data: Path, out: Path, around: str, *options: str) -> None:
    until = micro_timestamp(times_of(data).ended_ns)
    around_options = ("--around", around, "--window", "1h", "--until", until)
    assert run(["record", "export", *around_options, "--out", str(out), "--data", str(data), *options]) == 0


def command(
    *arguments: str, hash_seed: int = 0, timeout_s: float | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env={**ENVIRONMENT, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )


def tapes(data: Path) -> list[tuple[str, str]]:
    """Each run: directory and number. The scheduler has two, for it was killed."""
    folder = data / "tapes"
    return [
        (str(folder / "controllers"), "1"),
        (str(folder / "scheduler"), "1"),
        (str(folder / "scheduler"), "2"),
        (str(folder / "node-1"), "1"),
        (str(folder / "gateway"), "1"),
    ]


def test_every_run_is_reproduced_twice_under_other_hash_seeds(data: Path) -> None:
    for tape, number in tapes(data):
        results = []
        for hash_seed in (0, SEED):
            done = command("fathom.cli", "replay", tape, "--run", number, "--json", hash_seed=hash_seed)
            assert (done.returncode, done.stderr) == (0, ""), done.stdout
            results.append(json.loads(done.stdout))
        assert results[0] == results[1]
        assert results[0]["matched"]
        assert results[0]["writes"] > 10
        assert results[0]["decisions"] > (1 if tape.endswith("gateway") else 3)


def test_the_incident_is_one_file_that_replays(
    data: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_incident(file) as opened:
        incident = opened.incident
        assert [(tape.process, tape.run) for tape in incident.tapes] == TAPES_OF_WEB
        assert sum(journal.decisions for journal in incident.journals) > 10
        assert incident.store is not None
        assert incident.store.keys > 50
    capsys.readouterr()
    assert run(["replay", str(file), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["matched"] is True
    assert [(tape["process"], tape["run"]) for tape in document["tapes"]] == TAPES_OF_WEB


def test_both_incarnations_of_a_killed_process_are_in_its_file(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "huge.incident"
    export(data, out, "pod/huge")
    with open_incident(out) as opened:
        assert [(tape.process, tape.run) for tape in opened.incident.tapes] == [
            ("scheduler", 1),
            ("scheduler", 2),
        ]
    assert run(["replay", str(out)]) == 0


def test_an_object_of_another_kind_with_the_same_name_is_not_the_one_that_was_asked_for(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is a Deployment web, and its requests name it; no ReplicaSet has that name."""
    until = micro_timestamp(times_of(data).ended_ns)
    arguments = ["--around", "replicaset/web", "--window", "1h", "--until", until, "--data", str(data)]
    assert run(["record", "export", *arguments, "--out", str(tmp_path / "none.incident")]) == 2
    assert "decided about replicaset default/web" in capsys.readouterr().err


def test_a_tape_is_cut_at_the_end_of_the_window(data: Path, tmp_path: Path) -> None:
    out, times = tmp_path / "cut.incident", times_of(data)
    middle = micro_timestamp((times.began_ns + times.ended_ns) // 2)
    assert (
        run(["record", "export", "--around", "deployment/web", "--window", "1h", "--until", middle,
             "--out", str(out), "--data", str(data)])
        == 0
    )  # fmt: skip
    with open_incident(out) as opened:
        cut = {tape.process: (tape.cut, tape.until <= middle) for tape in opened.incident.tapes}
        assert cut["controllers"] == (True, True)
    assert run(["replay", str(out)]) == 0


def test_only_its_owner_may_read_an_incident_and_it_has_no_contents_of_secrets(file: Path) -> None:
    assert file.stat().st_mode & 0o077 == 0
    with zipfile.ZipFile(file) as archive:
        lines = [json.loads(line) for line in archive.read("store.jsonl").splitlines()]
    secrets = [line["body"] for line in lines if line["key"].startswith("/registry/secrets/")]
    assert all(not any((secret.get("data") or {}).values()) for secret in secrets)


def test_an_object_about_which_nobody_decided_has_no_incident(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--around", "pod/none", "--window", "1h", "--out", str(tmp_path / "x"), "--data", str(data)]
    assert run(["record", "export", *arguments]) == 2
    assert "decided about pod default/none in that time" in capsys.readouterr().err


# With one line of a decider changed.


CHANGED_LINE, NEVER_RETURNS_S = "tests.replay.changed_line", 120.0


def drawn_changes(
    runs: list[tuple[str, str]], rng: random.Random
) -> Iterator[tuple[str, str, str, list[int]]]:
    """(tape, run, change, decisions without it), drawn among the lines that each of the runs executed, in
    turn."""
    drawn = []
    for tape, number in runs:
        done = command(CHANGED_LINE, "lines", tape, number)
        assert done.returncode == 0, done.stderr
        executed = json.loads(done.stdout)
        by_line: dict[str, list[str]] = {}
        for change in executed["changes"]:
            by_line.setdefault(change.rpartition(":")[0], []).append(change)
        assert len(by_line) > 50
        lines = rng.sample(sorted(by_line), 50)
        drawn.append([(tape, number, rng.choice(by_line[line]), executed["values"]) for line in lines])
    yield from chain.from_iterable(zip(*drawn, strict=True))


def assert_changed_lines_are_found(runs: list[tuple[str, str]], count: int) -> None:
    """Each change that alters a decision, by the rule in `changed_line`, makes the replay differ, and the
    decision is named. One that alters none is drawn again."""
    found: list[str] = []
    for tape, number, change, decisions in drawn_changes(runs, random.Random(SEED)):
        try:
            done = command(CHANGED_LINE, change, tape, number, timeout_s=NEVER_RETURNS_S)
        except subprocess.TimeoutExpired:
            continue
        assert done.returncode == 0, f"{change}: {done.stderr}"
        answer = json.loads(done.stdout)
        divergence = answer["result"]["first_divergence"]
        compared = decisions if divergence is None else decisions[: len(answer["values"])]
        if answer["values"] == compared:
            continue
        assert divergence is not None, f"{change} alters a decision of {tape}, and the replay matches"
        assert divergence["decision"] is not None, f"{change}: {divergence}"
        named = divergence["decision"]["live"] or divergence["decision"]["replayed"]
        assert named["controller"]
        assert named["object"]
        found.append(change)
        if len(found) == count:
            return
    raise AssertionError(f"only {len(found)} changes count: {found}")


def deciders(data: Path) -> list[tuple[str, str]]:
    """The controllers, the killed scheduler's second run, and an agent."""
    controllers, _, scheduler, agent, _ = tapes(data)
    return [controllers, scheduler, agent]


@pytest.mark.full
def test_with_a_line_of_a_decider_changed_the_replay_names_the_decision(data: Path) -> None:
    assert_changed_lines_are_found(deciders(data)[1:2], 1)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_ten_changed_lines_are_found(data: Path) -> None:
    assert_changed_lines_are_found(deciders(data), 10)


@pytest.mark.full
@pytest.mark.timeout(3000)
def test_sixty_changed_lines_are_found(data: Path) -> None:
    assert_changed_lines_are_found(deciders(data), 60)


# With a patch.


def test_a_patch_without_effect_changes_no_decision(data: Path, tmp_path: Path) -> None:
    patch = tmp_path / "same.py"
    patch.write_text(PATCH.format(burst=400))
    done = command("fathom.cli", "replay", str(data / "tapes" / "controllers"), "--patch", str(patch))
    assert (done.returncode, done.stderr) == (0, "")
    assert "no decision and no request on the tape changes" in done.stdout
    assert done.stdout.startswith(f"{patch} changes fathom.controllers.replicaset.plan.BURST_PODS_MAX\n")


def test_the_first_decision_that_a_patch_changes_is_named_and_no_more(data: Path, tmp_path: Path) -> None:
    patch = tmp_path / "fix.py"
    patch.write_text(PATCH.format(burst=2))
    tape = str(data / "tapes" / "controllers")
    done = command("fathom.cli", "replay", tape, "--patch", str(patch), "--json")
    assert done.returncode == 1, done.stderr
    (replayed,) = json.loads(done.stdout)["tapes"]
    changed = replayed["result"]["first_divergence"]["decision"]
    assert changed["live"]["object"] == changed["replayed"]["object"]
    assert changed["live"]["object"].startswith("replicasets.apps default/")
    assert "actions" in changed["fields"]
    text = command("fathom.cli", "replay", tape, "--patch", str(patch)).stdout
    assert text.splitlines()[1].startswith(f"with {patch}, the first change is after input ")
    assert "  without: create" in text
    assert "  with:    create" in text
    assert text.splitlines()[-1].startswith("what follows is not known")


def patched(data: Path, tmp_path: Path, text: str, process: str = "controllers") -> tuple[int, str, str]:
    """Exit code, output and error of a replay with this patch."""
    patch = tmp_path / "fix.py"
    patch.write_text(text)
    done = command("fathom.cli", "replay", str(data / "tapes" / process), "--patch", str(patch))
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("plan.BURST_PODS_MAX =", "could not be loaded: SyntaxError"),
        ("from fathom.controllers.replicaset import plans", "could not be loaded: ImportError"),
        ("BURST_PODS_MAX = 5", "fix.py changes nothing: a patch imports a module of fathom"),
        ("from fathom.controllers.replicaset import plan", "fix.py changes nothing"),
    ],
)
def test_a_patch_that_does_not_apply_is_refused(
    data: Path, tmp_path: Path, text: str, complaint: str
) -> None:
    code, out, error = patched(data, tmp_path, text)
    assert (code, out) == (2, "")
    assert complaint in error
    assert "Traceback" not in error


def test_a_patch_with_which_the_code_cannot_start_says_so(data: Path, tmp_path: Path) -> None:
    text = "from fathom.controllers.replicaset import plan\ndel plan.plan_replicas\n"
    code, out, error = patched(data, tmp_path, text)
    assert (code, error) == (1, "")
    assert "fix.py changes fathom.controllers.replicaset.plan.plan_replicas\n" in out
    assert "the code failed: " in out
    assert "cannot import name 'plan_replicas'" in out


def test_a_patch_that_fails_is_a_change_of_the_decision_in_which_it_fails(data: Path, tmp_path: Path) -> None:
    text = (
        "from fathom.controllers.replicaset import plan\n"
        "def broken(*_, **__):\n    raise KeyError('the fix is wrong')\n"
        "plan.plan_replicas = broken\n"
    )
    code, out, error = patched(data, tmp_path, text)
    assert (code, error) == (1, "")
    assert "fix.py changes fathom.controllers.replicaset.plan.plan_replicas\n" in out
    assert "died, KeyError('the fix is wrong')" in out
    assert "replicasets.apps default/" in out


# Going on.


@pytest.mark.full
def test_a_tape_goes_on_in_a_fork_and_the_same_seed_gives_the_same(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tape = str(data / "tapes" / "controllers")
    continued = [json.loads(continued_text(tape, seed, capsys))["continuation"] for seed in ("1", "1", "2")]
    assert continued[0] == continued[1]
    assert continued[0]["trace"] != continued[2]["trace"]
    assert continued[0]["before"]["pods"] > 20
    # A node died before the end of the tape: its pods are created again elsewhere.
    assert any(change["what"] == "created" for change in continued[0]["changes"])


def continued_text(tape: str, seed: str, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert run(["replay", tape, "--continue", "10m", "--seed", seed, "--json"]) == 0
    return capsys.readouterr().out


def test_an_incident_goes_on_from_the_state_of_the_store(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_incident(file) as opened:
        contents = opened.contents()
    assert contents is not None
    pods = [entry.body.obj for entry in contents.entries if entry.key.startswith("/registry/pods/")]
    ready = sum(is_true(pod, "Ready") for pod in pods)
    lost = sum(
        pod["spec"].get("nodeName") == "node-2" and "ownerReferences" not in pod["metadata"] for pod in pods
    )
    capsys.readouterr()
    assert run(["replay", str(file), "--continue", "10m"]) == 0
    text = capsys.readouterr().out
    assert "continued for 600 s in a simulated copy, seed 0, from the store's state in the incident" in text
    # A node died before the end of the tape: its pods are created again elsewhere, if they have an owner, and
    # no others.
    assert ": created" in text
    counts = next(line for line in text.splitlines() if line.startswith("  pods "))
    assert counts.endswith(f"ready {ready} to {ready - lost}")


def test_a_file_that_only_looks_like_an_incident_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.incident"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("incident.json", b'{"format": "fathom.dev/incident/9"}')
    assert run(["replay", str(file)]) == 2
    assert "is not an incident" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["x.incident"]
