"""`fathom sim` and `fathom replay` as a person types them."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fathom.cli.main import run

pytestmark = pytest.mark.live

# Updates are sent without the revision that they were built on: the last writer wins.
BLIND = '''
"""Blind writes."""
from fathom.client.api import Api

SCENARIOS = ("shared-counter",)
BREAKS = "no update is lost"
sound = Api.update


async def blind(self, resource, namespace, obj, subresource=""):
    meta = {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}
    return await sound(self, resource, namespace, {**obj, "metadata": meta}, subresource)


Api.update = blind
'''

OWN = '''
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.scenario import scenario


@scenario(Menu(processes=("nobody",)))
async def mine(world):
    """A user's own."""
    await world.sleep(3)
    assert world.now_s == 4
'''


@pytest.fixture
def patch(tmp_path: Path) -> Path:
    file = tmp_path / "blind_writes.py"
    file.write_text(BLIND)
    return file


def fathom(*words: object, folder: Path) -> tuple[int, str, str]:
    """In an interpreter of its own: a patch cannot be taken back."""
    command = [sys.executable, "-m", "fathom.cli", *map(str, words)]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return ran.returncode, ran.stdout, ran.stderr


def answer(*words: object, folder: Path) -> tuple[int, Any]:
    code, out, err = fathom(*words, "--json", folder=folder)
    assert out, err
    return code, json.loads(out)


def test_list_names_and_describes_the_scenarios(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", "list"]) == 0
    assert "shared-counter  " in capsys.readouterr().out


def test_a_run_that_holds_exits_with_0(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["sim", "run", "shared-counter", "--seed", "1", "--json", "--out", str(tmp_path)]
    assert run(words) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["verdict"] == "holds"
    assert said["rerun"] == "fathom sim run shared-counter --seed 1"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["sim", "run", "nothing", "--seed", "1"], "there is no scenario 'nothing'"),
        (["sim", "run", "nowhere.py:x", "--seed", "1"], "nowhere.py is not a Python file"),
        (["sim", "explore", "all", "--seeds", "x"], "expected A..B"),
        (["sim", "explore", "all", "--seeds", "5..5"], "the range is empty"),
        (["sim", "explore", "all", "--seeds", "1", "--results", "/"], "--results: cannot open /"),
        (["sim", "run", "shared-counter", "--seed", "1", "--patch", "no.py"], "no.py is not a Python file"),
        (["sim", "shrink", "none.json"], "cannot read none.json"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    assert why in capsys.readouterr().err


def test_a_bug_is_found_kept_replayed_and_shrunk(patch: Path, tmp_path: Path) -> None:
    code, found = answer(
        "sim",
        "explore",
        "shared-counter",
        "--seeds",
        "0..9",
        "-j",
        2,
        "--first",
        "--patch",
        patch,
        folder=tmp_path,
    )
    assert code == 1
    assert [one["invariant"] for one in found["violations"]] == ["no update is lost"]
    assert found["artifacts"] == [".fathom-failures/shared-counter-0-random.json"]
    kept = found["artifacts"][0]
    assert (tmp_path / kept).stat().st_size < 1 << 20

    code, replayed = answer("replay", kept, "--trust", "patch", folder=tmp_path)
    assert (code, replayed["reproduced"]) == (0, True)
    assert replayed["violation"]["invariant"] == "no update is lost"

    words = ("sim", "run", "shared-counter", "--seed", 0, "--patch", patch, "-o", "name")
    assert fathom(*words, folder=tmp_path)[:2] == (1, f"{kept}\n")

    code, out, _ = fathom("replay", kept, "--patch", patch, folder=tmp_path)
    assert code == 0
    assert "reproduced, input for input" in out
    assert "BROKEN" in out

    code, shrunk = answer("sim", "shrink", kept, "--trust", "patch", folder=tmp_path)
    assert (code, shrunk["faults"], shrunk["proven"]) == (0, [], True)
    assert answer("replay", shrunk["artifact"], "--patch", patch, folder=tmp_path)[1]["reproduced"]


@pytest.mark.full
def test_a_replay_without_its_patch_says_so_and_with_another_does_not_reproduce(
    patch: Path, tmp_path: Path
) -> None:
    code, said = answer("sim", "run", "shared-counter", "--seed", 0, "--patch", patch, folder=tmp_path)
    assert (code, said["verdict"]) == (1, "broken")
    assert said["rerun"] == f"fathom sim run shared-counter --seed 0 --patch {patch}"
    other = tmp_path / "other.py"
    patch.rename(other)
    code, _, err = fathom("replay", said["artifact"], folder=tmp_path)
    assert code == 2
    assert "give it with --patch, or run the recorded copy with --trust patch" in err
    assert fathom("replay", said["artifact"], "--trust", "patch", folder=tmp_path)[0] == 0
    assert fathom("replay", said["artifact"], "--patch", other, folder=tmp_path)[0] == 0
    other.write_text('"""Nothing."""\n')
    code, out, err = fathom("replay", said["artifact"], "--patch", other, folder=tmp_path)
    assert code == 1
    assert "is not the patch that this run was recorded with" in err
    assert "NOT reproduced: input " in out


def test_a_users_own_scenario_is_found_in_its_file(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    code, said = answer("sim", "run", "own.py:mine", "--seed", 1, folder=tmp_path)
    assert (code, said["violation"]["invariant"]) == (1, "the scenario's own assertion")
    replayed = answer("replay", said["artifact"], "--trust", "scenario", folder=tmp_path)[1]
    assert replayed["reproduced"]


@pytest.mark.full
def test_determinism_is_checked_in_two_processes(tmp_path: Path) -> None:
    code, said = answer("sim", "check-determinism", "--seeds", "0..6", folder=tmp_path)
    assert (code, said["mismatches"], said["runs"]) == (0, 0, 12)


def test_what_depends_on_the_hash_seed_is_a_mismatch(tmp_path: Path) -> None:
    patch = tmp_path / "hashes.py"
    patch.write_text(
        '"""Names in the order of their hashes."""\n'
        "from fathom.sim.scenarios import basics\n"
        "sound = basics.Counting._added\n"
        "async def hashed(self, mark):\n"
        "    return await sound(self, f'{mark}-{hash(mark) % 1000}')\n"
        "basics.Counting._added = hashed\n"
        "basics._last_life_is_done = lambda world, name: True\n"
    )
    words = ("sim", "check-determinism", "shared-counter", "--seeds", "0..3", "--patch", patch)
    code, said = answer(*words, folder=tmp_path)
    assert (code, said["mismatches"]) == (1, 3)


@pytest.mark.full
def test_the_zoo_is_whatever_is_in_its_folder(patch: Path, tmp_path: Path) -> None:
    code, said = answer("sim", "zoo", "--folder", tmp_path, "--runs", 20, folder=tmp_path)
    assert (code, said["found"], said["of"]) == (0, 1, 1)
    bug = said["bugs"][0]
    assert (bug["name"], bug["invariant"], bug["shrunk_faults"]) == ("blind-writes", "no update is lost", 0)
    assert bug["runs_to_find"] == {"random": 1, "pct": 1, "lineage": 1}


@pytest.mark.full
def test_a_bug_that_is_not_found_is_a_bad_answer(tmp_path: Path) -> None:
    (tmp_path / "harmless.py").write_text('"""Nothing."""\nSCENARIOS = ("shared-counter",)\n')
    code, said = answer("sim", "zoo", "--folder", tmp_path, "--runs", 2, folder=tmp_path)
    assert (code, said["found"]) == (1, 0)


def test_a_patch_that_does_not_say_where_it_lives_is_refused(tmp_path: Path) -> None:
    (tmp_path / "homeless.py").write_text('"""Nothing."""\n')
    code, _, err = fathom("sim", "zoo", "--folder", tmp_path, folder=tmp_path)
    assert code == 2
    assert "does not name the SCENARIOS" in err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def", "SyntaxError"),
        ("import nothing_of_that_name", "ModuleNotFoundError"),
        ("raise SystemExit(0)", "SystemExit"),
        ("from fathom.client.api import Api\nApi.no_such_method", "AttributeError"),
        ("raise ValueError('one\\ntwo')", "ValueError: one two"),
    ],
)
@pytest.mark.parametrize(
    "command", [("run", "shared-counter", "--seed", "1"), ("check-determinism", "--seeds", "0..2")]
)
def test_a_patch_that_cannot_be_loaded_is_said_in_a_line(
    command: tuple[str, ...], text: str, why: str, tmp_path: Path
) -> None:
    file = tmp_path / "bad.py"
    file.write_text(text)
    code, out, err = fathom("sim", *command, "--patch", file, folder=tmp_path)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert f"bad.py could not be loaded: {why}" in err


def test_a_scenario_file_that_cannot_be_loaded_is_said_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("import nothing_of_that_name")
    code, out, err = fathom("sim", "run", "own.py:mine", "--seed", "1", folder=tmp_path)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "own.py could not be loaded: ModuleNotFoundError" in err


@pytest.mark.full
def test_a_scenario_may_import_what_is_beside_it(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "much.py").write_text("SECONDS = 3\n")
    story = OWN.replace("sleep(3)", "sleep(SECONDS)").replace("== 4", "== 3")
    (tmp_path / "mine" / "own.py").write_text(f"from much import SECONDS\n{story}")
    assert answer("sim", "run", "mine/own.py:mine", "--seed", 1, folder=tmp_path)[0] == 0
    assert answer("sim", "check-determinism", "mine/own.py:mine", "--seeds", "0..2", folder=tmp_path)[0] == 0


def ended_by_ctrl_c(folder: Path, *words: str, when: bytes, times: int = 1) -> tuple[int, str, str]:
    """At a terminal, once that shows something: its exit code, its answer, what was shown until then."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "fathom.cli", "sim", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        env={**os.environ, "COLUMNS": "140"},  # A progress line is cut at the terminal's width.
    ) as running:
        shown = b""
        while when not in shown:
            shown += os.read(ours, 1000)
        for _ in range(times):
            running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=60)
    os.close(theirs)
    os.close(ours)
    return running.returncode, out, shown.decode(errors="replace")


def test_a_terminal_shows_progress_and_ctrl_c_ends_an_exploration_with_what_was_found(tmp_path: Path) -> None:
    words = ("explore", "shared-counter", "--seeds", "0..100000", "-j", "2", "--results", "results.jsonl")
    code, out, shown = ended_by_ctrl_c(tmp_path, *words, when=b" rare paths")
    assert re.search(r"\] \d+/100,000 runs  [\d.]+/s  0 violations  \d+ fault × request", shown)
    assert code == 130
    runs = re.match(r"(\d+) runs \(interrupted\), ", out)
    assert runs
    assert f"everything held: 1 scenario, {runs[1]} runs each" in out
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == int(runs[1])
    code, said = answer("sim", *words, "--runs", str(int(runs[1]) + 3), folder=tmp_path)
    assert (code, said["runs"], said["resumed"]) == (0, int(runs[1]) + 3, int(runs[1]))


NEVER = """
from fathom.sim.testing import Menu, World, scenario

@scenario(Menu(processes=("nobody",), most=0))
async def never_holds(world: World) -> None:
    assert False, "it never does"
"""


def test_a_night_of_exploration_leaves_its_results_and_fails_if_something_broke(tmp_path: Path) -> None:
    (tmp_path / "never.py").write_text(NEVER)
    script = Path(__file__).parents[2] / "deploy" / "nightly-explore"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    def night(scenarios: str) -> tuple[int, str]:
        setting = {"PATH": path, "SCENARIOS": scenarios, "RUNS": "3", "AT_MOST": "10m"}
        done = subprocess.run(
            [script], cwd=tmp_path, env=setting, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout.partition(",")[0]

    assert night("shared-counter") == (0, "3 runs")
    assert night("never.py:never-holds") == (1, "3 runs")
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert [line["held"] for line in lines] == [True, True, True, False, False, False]
    assert len(list((tmp_path / "failures").iterdir())) == 3


def test_ctrl_c_ends_a_visit_to_the_zoo_with_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "harmless.py").write_text('"""Nothing."""\nSCENARIOS = ("shared-counter",)\n')
    words = ("zoo", "--folder", ".", "--runs", "100000", "--json")
    code, out, _ = ended_by_ctrl_c(
        tmp_path, *words, when=b"0/1 bugs  harmless", times=2
    )  # As `timeout` does.
    said = json.loads(out)
    assert (code, said["interrupted"], said["found"], said["of"]) == (130, True, 0, 1)


@pytest.mark.full
def test_a_patch_that_says_nothing_of_itself_is_hunted_in_all_scenarios(tmp_path: Path) -> None:
    file = tmp_path / "held_out.py"
    file.write_text(BLIND.replace("SCENARIOS =", "NOWHERE ="))
    code, said = answer("sim", "zoo", "--patch", file, "--runs", 40, "-j", 2, folder=tmp_path)
    assert code == 0
    assert (said["bugs"][0]["name"], said["bugs"][0]["found"]) == ("held-out", True)
    assert all(said["bugs"][0]["runs_to_find"].values())


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--only", "nessie"), "there is no bug 'nessie': there are "),
        (("--patch", "bad.py"), "bad.py could not be loaded: ModuleNotFoundError"),
        (("--patch", "none.py"), "none.py is not a Python file"),
        (("--patch", "made.py"), "made.py: SCENARIOS must be a literal: the file is parsed, not run"),
        (("--patch", "lost.py"), "no scenario 'nowhere'"),
    ],
)
def test_what_the_zoo_cannot_do_is_said_in_a_line(words: tuple[str, ...], why: str, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("import nothing_of_that_name")
    (tmp_path / "made.py").write_text("SCENARIOS: tuple[str, ...] = tuple(map(str, ()))")
    (tmp_path / "lost.py").write_text("SCENARIOS = 'nowhere'")
    code, out, err = fathom("sim", "zoo", *words, folder=tmp_path)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert why in err
