"""Every command of the tutorials and of the concepts' pages is typed, each page on a cluster of its own."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.console import Step, steps
from tests.docs.terminal import Terminal

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FOLLOWED = ("tutorials/*.md", "concepts/*.md", "writing-a-controller.md", "backup.md", "upgrading.md")
PAGES = sorted(str(page.relative_to(DOCS)) for pattern in FOLLOWED for page in DOCS.glob(pattern))
NORMALLY = {"tutorials/first-cluster.md"}
PROGRAMS = ("curl", "etcd", "kubectl")  # That a page may need, and a machine may lack.
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
UP = '() { case "$1" in up|doctor) command fathom "$1" --port 0 "${@:2}" ;; *) command fathom "$@" ;; esac; }'


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


def follow(page: str, tmp_path: Path, *, venv: Path | None) -> None:
    """`venv`: an install that is there already; else the page makes its own."""
    clone = place(tmp_path)
    variables = environment(tmp_path)
    variables["PATH"] += f":{programs_of_others(tmp_path)}"
    if venv is not None:
        (clone / ".venv").symlink_to(venv)
        variables["PATH"] = f"{venv}/bin:{variables['PATH']}"
    typed = steps((DOCS / page).read_text())
    skip_without_programs(typed, variables["PATH"])
    try:
        with Terminal(clone, variables) as terminal:
            for step in typed:
                wrong = terminal.type(step) if venv is None or step.note != "install" else ""
                if wrong:
                    pytest.fail(f"docs/{page}, {wrong}", pytrace=False)
    finally:
        for data in clone.glob("*/up.lock"):
            subprocess.run(
                [sys.executable, "-m", "fathom.cli", "down", "--data", data.parent, "--grace", "0s"],
                capture_output=True,
                check=False,
            )


@pytest.mark.live
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[] if page in NORMALLY else [pytest.mark.full]) for page in PAGES]
)
def test_a_page_prints_what_it_says(page: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """In normal runs, in the environment of these tests: an install takes a minute."""
    deep = request.config.getoption("--full")
    follow(page, tmp_path, venv=request.getfixturevalue("installed") if deep else Path(sys.prefix))


@pytest.mark.live
@pytest.mark.full
@pytest.mark.parametrize("page", ["tutorials/first-cluster.md", "installing.md"])
def test_a_page_works_in_the_install_that_it_makes(page: str, tmp_path: Path) -> None:
    follow(page, tmp_path, venv=None)


def test_every_command_of_the_readme_is_run_by_a_page() -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```$", (ROOT / "README.md").read_text(), flags=re.M | re.S)
    lines = [line.partition("  #")[0].strip() for block in blocks for line in block.splitlines()]
    commands = [line for line in lines if re.match(r"(fathom|kubectl|curl|script/\w+)\b", line)]
    typed = [step.command for page in PAGES for step in steps((DOCS / page).read_text())]
    assert len(commands) > 20
    assert [
        one for one in commands if one not in ELSEWHERE and not any(one in whole for whole in typed)
    ] == []
