"""Operators that were not written for fathom: bugs are found, correct ones are silent, runs repeat."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fathom.sim.foreign.operator_test import MENU, OperatorTest, judged
from fathom.sim.report import artifact as run_artifact
from fathom.sim.report.kept_runs import keep
from fathom.sim.report.replay import replay
from fathom.sim.report.run_report import as_lines, report
from fathom.sim.search.explore import Job, explore
from fathom.sim.search.shrink import shrink
from fathom.sim.search.summary import ExploreSummary
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.scenario import RunPlan, Scenario, plan_of, scenario, tell
from fathom.sim.world.world import World

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
OPERATORS = ROOT / "examples" / "operators"
TWICE = "nothing is made twice for one intent"


def greeting(operator_file: str, *, menu: Menu = MENU) -> Scenario:
    """A Greeting that wants two cards, while everything can go wrong."""

    async def story(world: World) -> None:
        operator = OperatorTest(world, OPERATORS)
        await operator.apply("greeting-crd.yaml")
        operator.run(operator_file)
        await operator.apply("hello.yaml")
        await operator.recover()

    return judged(scenario(menu, name=operator_file)(story))


def test_an_operator_may_be_a_module_of_a_package_which_is_imported_again_at_each_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "greeting_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "starts.py").write_text("count = 0\n")
    own = "from . import starts\nstarts.count += 1\nassert starts.count == 1\n"
    source = (OPERATORS / "greeter.py").read_text().replace("import kopf\n", f"import kopf\n{own}", 1)
    (package / "operator.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    cards: list[str] = []

    async def story(world: World) -> None:
        operator = OperatorTest(world, OPERATORS)
        await operator.apply("greeting-crd.yaml")
        operator.run(module="greeting_package.operator")
        await operator.apply("hello.yaml")
        world.crash("operator", restart_after_s=3)
        await operator.recover()
        cards[:] = [card["metadata"]["name"] for card in operator.list("configmaps")]

    of = judged(scenario(MENU, name="by-module")(story))
    assert tell(of, RunPlan(scenario=of.name, seed="1")).violation is None
    assert cards == ["hello-0", "hello-1"]


LOGS_TO_EVENTS = """
import kopf

@kopf.on.startup()
def configure(settings, **_):
    settings.posting.loggers = True

@kopf.on.create("greetings.example.dev")
def greet(logger, **_):
    logger.info("Good morning.")
"""


def test_what_an_operator_logs_is_an_event_where_it_asks_for_that(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(LOGS_TO_EVENTS)
    messages: list[str] = []

    async def story(world: World) -> None:
        operator = OperatorTest(world, OPERATORS)
        await operator.apply("greeting-crd.yaml")
        operator.run(tmp_path / "program.py")
        await operator.apply("hello.yaml")
        await operator.sleep(10)
        messages[:] = [event["message"] for event in operator.list("events")]

    of = scenario(Menu(processes=("operator",), most=0), name="logs-to-events")(story)
    assert tell(of, RunPlan(scenario=of.name, seed="1")).violation is None
    assert "Good morning." in messages


def test_a_finalizer_that_stays_is_named_when_the_test_waits_for_a_deletion(tmp_path: Path) -> None:
    """Without an operator nobody removes it."""

    async def story(world: World) -> None:
        operator = OperatorTest(world, tmp_path)
        metadata = {"name": "held", "finalizers": ["example.dev/cleanup"]}
        held = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        await operator.apply(held)
        await operator.delete(held)

    of = judged(scenario(Menu(processes=(), most=0), name="held")(story))
    violation = tell(of, plan_of(of, "1")).violation
    assert violation is not None
    assert violation.invariant == "what was deleted goes away: finalizers are removed"
    assert violation.message.partition(" was deleted at ")[0] == "configmaps/default/held"
    assert "is still there, held by example.dev/cleanup." in violation.message


def test_an_operator_is_named_by_one_file_or_one_module(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        operator = OperatorTest(world, tmp_path)
        with pytest.raises(ValueError, match="by its file or by its module"):
            operator.run()
        with pytest.raises(FileNotFoundError, match="there is no operator at"):
            operator.run("absent.py")
        with pytest.raises(ModuleNotFoundError, match="there is no operator absent_package"):
            operator.run(module="absent_package.operator")

    of = scenario(MENU, name="named")(story)
    assert tell(of, RunPlan(scenario=of.name, seed="1")).violation is None


DEFINES_ITS_KIND = """
import kopf, kubernetes, time, yaml, pathlib

@kopf.on.startup()
def define(**_):
    time.sleep(9)
    crd = yaml.safe_load((pathlib.Path(__file__).parent / "greeting-crd.yaml").read_text())
    kubernetes.client.ApiextensionsV1Api().create_custom_resource_definition(crd)

@kopf.on.login()
def login(**kwargs):
    return kopf.login_via_client(**kwargs)
"""


def test_a_kind_may_be_defined_by_the_operator_itself(tmp_path: Path) -> None:
    shutil.copy(OPERATORS / "greeting-crd.yaml", tmp_path)
    (tmp_path / "program.py").write_text(DEFINES_ITS_KIND)

    async def story(world: World) -> None:
        operator = OperatorTest(world, tmp_path)
        with pytest.raises(LookupError, match="is not served: apply its definition first"):
            await operator.apply(OPERATORS / "hello.yaml")
        operator.run("program.py")
        await operator.apply(OPERATORS / "hello.yaml")
        assert operator.get("greetings.example.dev", "hello") is not None
        await operator.delete(OPERATORS / "hello.yaml")
        assert operator.get("greetings.example.dev", "hello") is None

    of = scenario(Menu(processes=("operator",), most=0), name="defined")(story)
    violation = tell(of, RunPlan(scenario=of.name, seed="1")).violation
    assert violation is None, violation


def test_an_operator_that_ends_before_it_defines_its_kind_is_told_with_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import os\nos.environ['REQUIRED']\n")

    async def story(world: World) -> None:
        operator = OperatorTest(world, tmp_path)
        operator.run("program.py")
        await operator.apply(OPERATORS / "hello.yaml")

    of = scenario(Menu(processes=("operator",), most=0), name="ends")(story)
    violation = tell(of, RunPlan(scenario=of.name, seed="1")).violation
    assert violation is not None
    assert violation.invariant == "the operator stays up"
    assert "KeyError: 'REQUIRED'" in violation.message


def test_a_definition_of_an_old_version_is_refused_with_what_to_do(tmp_path: Path) -> None:
    old = {
        "apiVersion": "apiextensions.k8s.io/v1beta1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "greetings.example.dev"},
        "spec": {
            "group": "example.dev",
            "names": {"kind": "Greeting", "plural": "greetings"},
            "version": "v1",
        },
    }

    async def story(world: World) -> None:
        with pytest.raises(ValueError, match=r"convert it to apiextensions\.k8s\.io/v1"):
            await OperatorTest(world, tmp_path).apply(old)

    of = scenario(MENU, name="old")(story)
    assert tell(of, RunPlan(scenario=of.name, seed="1")).violation is None


def explored(of: Scenario, seeds: range, *, first: bool = False) -> ExploreSummary:
    jobs = [Job(of.name, str(seed), "random") for seed in seeds]
    return explore({of.name: of}, jobs, stop_at_first=first)


@pytest.mark.parametrize("file", ["greeter_twice.py", "blocking_greeter_twice.py"])
def test_a_duplicate_after_an_unknown_create_is_found_shrunk_told_and_replayed(
    file: str, tmp_path: Path
) -> None:
    of = greeting(file)
    found = explored(of, range(20), first=True).violations[0]
    assert found.violation is not None
    assert found.violation.invariant == TWICE
    smallest = shrink(found, lambda plan: tell(of, plan)).result
    assert len(smallest.plan.faults) == 1
    run_report, run = report(of, smallest.plan)
    text = "\n".join(as_lines(run_report))
    assert "Greeting hello has 3 configmaps of the name hello-…; without faults it has 2." in text
    assert "What to do: name the object after its owner (hello-0)" in text
    assert len(re.findall(r"creates configmap hello-\w{5}, at revision", text)) == 3
    kept = keep(run_report, run, patch=None, out=tmp_path)
    replayed, again = replay(run_artifact.read(Path(kept.file)), of)
    assert (replayed.reproduced, again.violation) == (True, smallest.violation)


@pytest.mark.parametrize("file", ["greeter.py", "blocking_greeter.py"])
def test_the_correct_operator_is_silent(file: str) -> None:
    summary = explored(greeting(file), range(8))
    assert (summary.runs, summary.violations) == (8, [])


@pytest.mark.full
@pytest.mark.parametrize("file", ["greeter.py", "blocking_greeter.py"])
def test_the_correct_operator_is_silent_over_many_seeds(file: str) -> None:
    summary = explored(greeting(file), range(50))
    assert (summary.runs, summary.violations) == (50, [])


@pytest.mark.parametrize("file", ["greeter_twice.py", "blocking_greeter.py"])
def test_a_seed_gives_one_run(file: str) -> None:
    of = greeting(file)
    first, second = ([tell(of, plan_of(of, str(seed))).trace for seed in range(3)] for _ in range(2))
    assert first == second
    assert len(set(first)) == 3


@pytest.mark.full
@pytest.mark.live
@pytest.mark.parametrize("name", ["greeter", "greeter-twice", "blocking-greeter", "blocking-greeter-twice"])
def test_two_interpreters_run_each_seed_alike(name: str) -> None:
    command = [sys.executable, "-m", "fathom.cli", "sim", "check-determinism"]
    target = f"{OPERATORS / 'scenarios.py'}:{name}"
    ran = subprocess.run(
        [*command, target, "--seeds", "0..50"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "50 seeds, each run twice" in ran.stdout
    assert "0 mismatches" in ran.stdout


OF_SEVERAL_KINDS = """
import kopf

@kopf.on.event("greetings.example.dev")
@kopf.on.event("configmaps")
@kopf.on.event("secrets")
@kopf.on.event("services")
async def look(**_): pass
"""

OF_A_SET = """
import kopf, kubernetes

@kopf.on.create("greetings.example.dev")
def make(namespace, **_):
    kubernetes.config.load_kube_config()
    for name in {"red", "green", "blue", "black", "white"}:
        kubernetes.client.CoreV1Api().create_namespaced_config_map(namespace, {"metadata": {"name": name}})
"""

ITS_SCENARIO = """
from fathom.sim.testing import OperatorTest, operator_scenario

@operator_scenario()
async def looks(operator: OperatorTest) -> None:
    await operator.apply("greeting-crd.yaml")
    operator.run("program.py")
    await operator.apply("hello.yaml")
    await operator.recover()
"""


def mismatches(folder: Path, program: str, **environment: str) -> str:
    for file in ("greeting-crd.yaml", "hello.yaml"):
        (folder / file).write_text((OPERATORS / file).read_text())
    (folder / "program.py").write_text(program)
    (folder / "scenarios.py").write_text(ITS_SCENARIO)
    command = [
        sys.executable,
        "-m",
        "fathom.cli",
        "sim",
        "check-determinism",
        "scenarios.py:looks",
        "--seeds",
    ]
    ran = subprocess.run(
        [*command, "0..2"],
        cwd=folder,
        env={key: value for key, value in os.environ.items() if key != "PYTHONHASHSEED"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.stdout.strip().rpartition(": ")[2] or ran.stderr


@pytest.mark.full
@pytest.mark.live
def test_two_interpreters_start_the_watches_of_several_kinds_in_one_order(tmp_path: Path) -> None:
    assert mismatches(tmp_path, OF_SEVERAL_KINDS) == "0 mismatches"


@pytest.mark.full
@pytest.mark.live
def test_an_operator_that_loops_over_a_set_of_strings_needs_a_fixed_hash_seed(tmp_path: Path) -> None:
    assert mismatches(tmp_path, OF_A_SET) == "2 mismatches"
    assert mismatches(tmp_path, OF_A_SET, PYTHONHASHSEED="0") == "0 mismatches"


def test_a_report_has_what_the_program_printed_last(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("print('waiting for the database')\nimport time\ntime.sleep(1e6)\n")

    async def story(world: World) -> None:
        OperatorTest(world, tmp_path).run_program("program.py")
        await world.sleep(5)
        raise AssertionError("not ready")

    of = judged(scenario(Menu(processes=("operator",), most=0), name="printed")(story))
    said = as_lines(report(of, plan_of(of, "1"))[0])
    assert "  waiting for the database" in said[said.index("What operator printed last:") :]


WAITS_FOR_ITS_PODS = """
import kopf, kubernetes, time

@kopf.on.create("example.dev", "v1", "greetings")
def serve(name, namespace, patch, **_):
    labels = {"app": name}
    container = {"name": "main", "image": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    apps = kubernetes.client.AppsV1Api()
    try:
        apps.create_namespaced_deployment(namespace, {"metadata": {"name": name}, "spec": spec})
    except kubernetes.client.ApiException as error:
        if error.status != 409:
            raise
    while apps.read_namespaced_deployment(name, namespace).status.ready_replicas != 2:
        time.sleep(5)
    patch.metadata.annotations["example.dev/ready"] = "yes"
"""


def test_pods_run_where_the_test_asks_for_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(WAITS_FOR_ITS_PODS)

    async def story(world: World) -> None:
        operator = OperatorTest(world, tmp_path)
        operator.run_cluster()
        await operator.apply(OPERATORS / "greeting-crd.yaml")
        operator.run("program.py")
        await operator.apply(OPERATORS / "hello.yaml")
        await operator.recover()
        hello = operator.get("greetings.example.dev", "hello") or {}
        assert hello["metadata"]["annotations"]["example.dev/ready"] == "yes"
        assert [pod["status"]["phase"] for pod in operator.list("pods")] == ["Running", "Running"]

    of = judged(scenario(MENU, name="with-a-cluster")(story))
    for seed in ("1", "2"):
        violation = tell(of, plan_of(of, seed)).violation
        assert violation is None, violation
