"""Every command of the pages is typed, or a comment before it says why not. Tutorials and concepts have a
cluster of their own for each page; pages about one matter share a cluster."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.attach.test_attach_live import PODS, placed_by_kube_scheduler, plain_server
from tests.cli.asking import node, pod
from tests.docs.console import Shown, Step, shown, steps
from tests.docs.terminal import Terminal

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FOLLOWED = (
    "tutorials/*.md",
    "concepts/*.md",
    "writing-a-controller.md",
    "backup.md",
    "upgrading.md",
    "simulation.md",
    "benchmarks.md",
)
PAGES = sorted(str(page.relative_to(DOCS)) for pattern in FOLLOWED for page in DOCS.glob(pattern))
NORMALLY = {"tutorials/first-cluster.md", "simulation.md"}
INSTALLING = ["tutorials/first-cluster.md", "installing.md"]
ATTACHING = "attaching.md"
# The first starts a cluster with the Deployment web; they leave it as they found it.
TOGETHER = (
    "running-a-cluster.md",
    "exec.md",
    "scheduling.md",
    "coupling.md",
    "why.md",
    "runbooks.md",
    "metrics.md",
    "recording.md",
    "incidents.md",
    "traces.md",
)
PROGRAMS = ("curl", "etcd", "jq", "kubectl")  # That a page may need, and a machine may lack.
# Commands of README.md that no page has, and the test that runs them.
ELSEWHERE = {
    "script/server": "tests/cli/test_up.py",  # `fathom up`, after script/setup.
    "script/test": "itself",
    "fathom demo risk-api": "tests/cluster/test_demo_live.py",
    "fathom top": "tests/cli/test_top.py",  # In a terminal.
    "fathom page": "tests/web/test_page_commands_live.py",  # Its link is another one each time.
    "fathom sim explore all --seeds 0..100 -j 2": "tests/sim/test_scenarios.py",
    "fathom sim zoo": "tests/sim/test_zoo.py",
}
# Several clusters run at once while tests do: each takes a free port.
UP = (
    '() { case "$1" in up|doctor|attach) command fathom "$1" --port 0 "${@:2}" ;;'
    ' *) command fathom "$@" ;; esac; }'
)


def place(tmp_path: Path) -> Path:
    """A directory with the files of a clone."""
    files = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(files, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    clone = tmp_path / "fathom"
    for name in listed:
        if (ROOT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, clone / name)
    return clone


def environment(tmp_path: Path) -> dict[str, str]:
    """That of somebody who has just logged in: no cluster, no virtual environment."""
    own = re.compile(r"KUBECONFIG|VIRTUAL_ENV|FATHOM|PS1")
    kept = {name: value for name, value in os.environ.items() if not own.match(name)}
    path = ":".join(each for each in kept["PATH"].split(":") if not each.startswith(sys.prefix))
    return {**kept, "HOME": str(tmp_path), "PATH": path, "BASH_FUNC_fathom%%": UP, "COLUMNS": "200"}


def skip_without_programs(typed: list[Step], path: str) -> None:
    for program in PROGRAMS:
        needed = any(
            step.command.startswith(program) or f"$ {program} " in "\n".join(step.output) for step in typed
        )
        if needed and not shutil.which(program, path=path):
            pytest.skip(f"{program} is not installed")


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The install that the first page makes, without what only these tests have. All workers share one."""
    own = tmp_path_factory.getbasetemp()
    shared = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "install-of-the-first-page"
    shared.mkdir(exist_ok=True)
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "done").exists():
            subprocess.run([place(shared) / "script" / "setup", "--runtime"], check=True, capture_output=True)
            (shared / "done").touch()
    return shared / "fathom" / ".venv"


def programs_of_others(tmp_path: Path) -> Path:
    """What a page says that its reader has, and only the environment of the tests may have."""
    directory = tmp_path / "programs"
    directory.mkdir()
    for program in ("etcd", "etcdctl"):
        if (found := Path(sys.prefix, "bin", program)).exists():
            (directory / program).symlink_to(found)
    return directory


def follow(
    *pages: str, tmp_path: Path, venv: Path | None, deep: bool, files: Mapping[str, str] | None = None
) -> None:
    """One after the other. `venv`: an install that is there already; else the page makes its own. `files`:
    what the reader has."""
    clone = place(tmp_path)
    for name, text in (files or {}).items():
        (clone / name).write_text(text)
    variables = environment(tmp_path)
    variables["PATH"] += f":{programs_of_others(tmp_path)}"
    if venv is not None:
        (clone / ".venv").symlink_to(venv)
        variables["PATH"] = f"{venv}/bin:{variables['PATH']}"
    left_out = ({"install"} if venv is not None else set()) | (set() if deep else {"deep"})
    typed = [
        (page, step)
        for page in pages
        for step in steps((DOCS / page).read_text())
        if step.note not in left_out
    ]
    skip_without_programs([step for _, step in typed], variables["PATH"])
    wrong: dict[str, str] = {}
    try:
        with Terminal(clone, variables) as terminal:
            for page, step in typed:
                if page not in wrong and pages[0] not in wrong and (complaint := terminal.type(step)):
                    wrong[page] = f"docs/{page}, {complaint}"
    finally:
        for data in clone.glob("*/up.lock"):
            subprocess.run(
                [sys.executable, "-m", "fathom.cli", "down", "--data", data.parent, "--grace", "1s"],
                capture_output=True,
                check=False,
            )
    if wrong:
        pytest.fail("\n\n".join(wrong.values()), pytrace=False)


@pytest.mark.live
@pytest.mark.timeout(1200)  # With the install that all pages share, on a busy machine.
@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[] if page in NORMALLY else [pytest.mark.full]) for page in PAGES]
)
def test_a_page_prints_what_it_says(page: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """In normal runs, in the environment of these tests: an install takes a minute."""
    deep = request.config.getoption("--full")
    venv = request.getfixturevalue("installed") if deep else Path(sys.prefix)
    follow(page, tmp_path=tmp_path, venv=venv, deep=deep)


@pytest.mark.live
@pytest.mark.full
@pytest.mark.timeout(1200)  # With the install that all pages share, on a busy machine.
def test_pages_about_one_cluster_print_what_they_say(tmp_path: Path, installed: Path) -> None:
    follow(*TOGETHER, tmp_path=tmp_path, venv=installed, deep=True)


@pytest.mark.live
@pytest.mark.full
def test_the_page_about_attaching_prints_what_it_says(tmp_path: Path, installed: Path) -> None:
    with plain_server(tmp_path) as kubernetes:
        for name, cpu in (("node-1", "4"), ("node-2", "2")):
            kubernetes.request("POST", "/api/v1/nodes", node(name, cpu))
        placed_by_kube_scheduler(kubernetes, "web", "node-1")
        kubernetes.request("POST", PODS, pod("big", "9"))
        files = {"prod.yaml": kubernetes.kubeconfig.read_text()}
        follow(ATTACHING, tmp_path=tmp_path, venv=installed, deep=True, files=files)


@pytest.mark.live
@pytest.mark.full
@pytest.mark.parametrize("page", INSTALLING)
def test_a_page_works_in_the_install_that_it_makes(page: str, tmp_path: Path) -> None:
    follow(page, tmp_path=tmp_path, venv=None, deep=True)


def test_every_command_of_the_readme_is_run_by_a_page() -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```$", (ROOT / "README.md").read_text(), flags=re.M | re.S)
    lines = [line.partition("  #")[0].strip() for block in blocks for line in block.splitlines()]
    commands = [line for line in lines if re.match(r"(fathom|kubectl|curl|script/\w+)\b", line)]
    typed = [step.command for page in PAGES for step in steps((DOCS / page).read_text())]
    assert len(commands) > 20
    assert [
        one for one in commands if one not in ELSEWHERE and not any(one in whole for whole in typed)
    ] == []


# Pages whose commands are listed by other tests: cli.md is made from the code, decisions are history.
READ_ONLY = re.compile(r"cli\.md|decisions/.*")
NOT_RUN = {
    "assistants.md": 1,
    "attaching.md": 2,
    "benchmarks.md": 13,
    "installing.md": 11,
    "public-operators.md": 11,
    "reliability.md": 1,
    "running-a-cluster.md": 1,
    "scheduling.md": 3,
    "simulation.md": 9,
    "traces.md": 3,
    "why.md": 7,
}


def test_a_command_that_is_not_typed_says_who_runs_it_or_why_nobody_can() -> None:
    unexplained, not_run = [], Counter[str]()
    for page in sorted(DOCS.rglob("*.md")):
        name = str(page.relative_to(DOCS))
        for block in [] if READ_ONLY.fullmatch(name) else shown(page.read_text()):
            how, _, what = block.note.partition(": ")
            if how == "not run" and what:
                not_run[name] += len(_commands(block))
            elif not (how.startswith("run by ") and (ROOT / how.removeprefix("run by ")).is_file()):
                unexplained.append(f"{name}, line {block.line}")
    assert unexplained == []
    assert not_run == NOT_RUN, "the commands that no test runs: fewer is better, and more needs a reason"


def _commands(block: Shown) -> list[str]:
    lines = block.commands.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.startswith((" ", "#"))]


def test_what_looks_as_if_it_is_typed_is_typed() -> None:
    typed = {*PAGES, *TOGETHER, *INSTALLING, ATTACHING}
    with_commands = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if steps(page.read_text())}
    assert {name for name in with_commands if not READ_ONLY.fullmatch(name)} - typed == set()
