"""Programs as `python main.py` and `python -m package` run them: arguments, `__main__`, restarts."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from fathom.sim.foreign.operator_test import OperatorTest, operator_scenario
from fathom.sim.testing import Menu
from fathom.sim.world.scenario import Result, RunPlan, ScenarioRun

ONLY_CALM = Menu(processes=("operator",), most=0)
# What every script of this file has: `say`, which adds a line to the file `said` beside it.
SAYS = """
import pathlib

def say(*words):
    with (pathlib.Path(__file__).parent / "said").open("a") as file:
        print(*words, file=file)
"""


def ran(folder: Path, start: Callable[[OperatorTest], object], *, crash: bool = False) -> Result:
    """A world in which the program is started, and perhaps killed once."""

    @operator_scenario(ONLY_CALM)
    async def story(operator: OperatorTest) -> None:
        operator.folder = folder
        start(operator)
        await operator.sleep(5)
        if crash:
            operator.world.crash("operator", restart_after_s=1)
        await operator.sleep(5)

    unjudged = msgspec.structs.replace(story, checkers=tuple)
    return ScenarioRun(unjudged, RunPlan(scenario="story", seed="1")).run()


def said(folder: Path) -> list[str]:
    return (folder / "said").read_text().splitlines()


def write(folder: Path, text: str, name: str = "main.py") -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(SAYS + text)
    return file


def test_a_file_is_run_with_its_arguments_as_a_script(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
import argparse, beside, sys, time

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--interval", type=int)
    say(parser.parse_args().interval, sys.argv[0] == __file__, beside.name)
    time.sleep(1000)
    """,
    )
    (tmp_path / "beside.py").write_text("name = __name__\n")
    arguments = list(sys.argv)
    result = ran(tmp_path, lambda operator: operator.run_program("main.py", args=["--interval", "7"]))
    assert result.violation is None
    assert said(tmp_path) == ["7 True beside"]
    assert sys.argv == arguments


def test_two_programs_each_find_the_module_beside_them(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path, "import utils\nsay(utils.NAME)\n", f"{name}/main.py")
        (tmp_path / name / "utils.py").write_text(f"NAME = {name!r}\n")

    def start(operator: OperatorTest) -> None:
        for name in ("a", "b"):
            operator.run_program(f"{name}/main.py", name=name, restart=False)

    path = list(sys.path)
    assert ran(tmp_path, start).violation is None
    assert said(tmp_path / "a") + said(tmp_path / "b") == ["a", "b"]
    assert sys.path == path


def test_a_function_finds_no_arguments_of_the_test_runner(tmp_path: Path) -> None:
    found: list[list[str]] = []
    ran(tmp_path, lambda operator: operator.run_program(lambda: found.append(list(sys.argv))))
    assert found == [["operator"]]


def test_a_script_finds_its_own_names_in_its_main_module(tmp_path: Path) -> None:
    """As pydantic and dataclasses do, to resolve annotations; and as pickle does."""
    write(
        tmp_path,
        """
import sys, time
class Spec: pass
for _ in range(2):
    say(sys.modules[Spec.__module__].Spec is Spec)
    time.sleep(1)
    """,
    )
    main = sys.modules["__main__"]
    assert ran(tmp_path, lambda operator: operator.run_program("main.py", restart=False)).violation is None
    assert said(tmp_path) == ["True", "True"]
    assert sys.modules["__main__"] is main


def test_a_package_is_run_by_its_main_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "from . import part\nsay(__name__, __package__, part.starts)\n", "scripted/__main__.py")
    (tmp_path / "scripted/__init__.py").write_text("")
    (tmp_path / "scripted/part.py").write_text("starts = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    run = lambda operator: operator.run_program(module="scripted", restart=False)  # noqa: E731
    assert ran(tmp_path, run).violation is None
    assert said(tmp_path / "scripted") == ["__main__ scripted 1"]


def test_a_program_is_named_by_one_file_or_one_module(tmp_path: Path) -> None:
    def start(operator: OperatorTest) -> None:
        with pytest.raises(ValueError, match="by its file or by its module"):
            operator.run_program()
        with pytest.raises(FileNotFoundError, match="no operator at"):
            operator.run_program("absent.py")
        with pytest.raises(ModuleNotFoundError, match="no operator absent_package"):
            operator.run_program(module="absent_package")

    assert ran(tmp_path, start).violation is None


# What installed packages keep between two starts.


def test_packages_of_an_environment_in_the_folder_of_the_program_stay(tmp_path: Path) -> None:
    packages = tmp_path / ".venv/lib/site-packages"
    begin = f"import sys, time\nsys.path.append({str(packages)!r})\n"
    write(tmp_path, begin + "import installed_one\nsay(1)\ntime.sleep(1000)\n")
    write(packages, "say(1)\n", "installed_one.py")
    result = ran(tmp_path, lambda operator: operator.run_program("main.py"), crash=True)
    assert result.violation is None
    assert said(tmp_path) == ["1", "1"]
    assert said(packages) == ["1"]


def test_metrics_are_registered_anew_at_each_start(tmp_path: Path) -> None:
    """Code that stands for many operators: a Counter in a module, and the server that shows it."""
    write(
        tmp_path,
        """
import time
from prometheus_client import Counter, start_http_server

HANDLED = Counter("handled", "Objects that were handled.")
start_http_server(9090)
HANDLED.inc()
say(HANDLED._value.get())
time.sleep(1000)
    """,
    )
    assert ran(tmp_path, lambda operator: operator.run_program("main.py"), crash=True).violation is None
    assert said(tmp_path) == ["1.0", "1.0"]


def test_a_script_that_runs_kopf_itself_has_its_handlers_once(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
import kopf

@kopf.on.startup()
def begin(**_):
    say("begins")

if __name__ == "__main__":
    kopf.run(clusterwide=True)
    """,
    )
    assert ran(tmp_path, lambda operator: operator.run_program("main.py"), crash=True).violation is None
    assert said(tmp_path) == ["begins", "begins"]


def test_what_a_program_configures_of_logging_ends_with_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Handlers do not add up over starts, and nothing stays disabled for the next test."""
    write(
        tmp_path,
        """
import logging, logging.config, sys, time

logging.config.dictConfig({
    "version": 1,
    "handlers": {"out": {"class": "logging.StreamHandler", "stream": "ext://sys.stdout"}},
    "root": {"handlers": ["out"], "level": "DEBUG"},
})
logging.getLogger("mine").addHandler(logging.StreamHandler(sys.stderr))
say(len(logging.getLogger("mine").handlers), len(logging.root.handlers))
time.sleep(1000)
    """,
    )
    before = logging.getLogger("kopf.objects")
    handlers, level = list(logging.root.handlers), logging.root.level
    assert ran(tmp_path, lambda operator: operator.run_program("main.py"), crash=True).violation is None
    assert said(tmp_path) == ["1 1", "1 1"]
    assert (logging.root.handlers, logging.root.level, before.disabled) == (handlers, level, False)
    logging.getLogger("mine").warning("heard")
    assert "heard" in caplog.text
