"""OperatorTest: a test of an operator in a few lines, for authors who have never heard of fathom.

    async def test_every_greeting_gets_its_cards(operator: OperatorTest) -> None:
        await operator.apply("greeting-crd.yaml")
        operator.run("greeter.py")
        await operator.apply("hello.yaml")
        await operator.recover()
        assert len(operator.list("configmaps")) == 2

The pytest fixture `operator` gives one; `operator_scenario` makes a scenario of the same function.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from fathom.kube.definitions.registry import Registry
from fathom.model.body import encode_json
from fathom.model.conditions import is_true
from fathom.model.objects import Key, Obj, metadata
from fathom.model.resource import Resource
from fathom.model.resources import DEFINITIONS
from fathom.sim.checkers.operators import (
    FinalizersAreRemoved,
    NothingIsMadeTwice,
    Role,
    StaysUp,
    for_any_operator,
)
from fathom.sim.foreign.commands import CommandAnswer
from fathom.sim.foreign.hosts import HostAnswer
from fathom.sim.foreign.programs import run_operator, run_program
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault
from fathom.sim.world.invariants import Checker
from fathom.sim.world.process import SimProcess
from fathom.sim.world.scenario import RunPlan, Scenario, ScenarioRun, scenario
from fathom.sim.world.world import World

OPERATOR = "operator"  # The process's name, where the test gives none.

# All faults but one: `rebase` passes on state of fathom's own processes.
MENU = Menu(processes=(OPERATOR,), servers=("api-1",), without=("rebase",), seconds=20.0)

# Longer than an operator with work left is silent: kopf tries again after 60 s, and notices a dead watch
# after 70 s.
QUIET_S = 150.0
WITHIN_S = 1200.0

FAULTS_S = 30.0
# Before each write of the test itself up to so many seconds pass: it comes in the middle of the faults.
BEFORE_A_WRITE_S = 8.0

# How long a test waits until what it deleted is gone: as long as until everything is at rest.
GONE_WITHIN_S = WITHIN_S

# How long a test waits for an operator that defines its kinds itself, at its start.
DEFINED_WITHIN_S = 300.0
V1 = "apiextensions.k8s.io/v1"

LINES_SHOWN = 10  # Of what a program printed.

CALM_SEED = "calm"

HOW_TO_READ = (
    "How to read this: times are minutes and seconds of the simulated cluster since the test began.",
    f"{OPERATOR}#2 is the operator after its second start. Lines with !! are failures that the test made on",
    "purpose; 'because of 4' points to the line that led to it. See docs/testing-your-operator.md.",
)


HASHES_ARE_RANDOM = (
    "If a rerun differs, the operator loops over a set of strings: its order changes with each interpreter.",
    "PYTHONHASHSEED=0 before the command makes all runs of a seed alike.",
)


def _how_to_read() -> tuple[str, ...]:
    random_hashes = sys.flags.hash_randomization and not os.environ.get("PYTHONHASHSEED", "").isdigit()
    return (*HOW_TO_READ, *HASHES_ARE_RANDOM) if random_hashes else HOW_TO_READ


class OperatorTest:
    """A cluster with an operator in it, where things go wrong. `world` can do more: docs/simulation.md."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self._hosts: dict[str, HostAnswer] = {}
        self._commands: dict[str, CommandAnswer] = {}
        self.folder = folder  # Relative paths begin here: the test's own folder.

    def run(self, path: str | Path | None = None, name: str = OPERATOR, **options: Any) -> SimProcess:
        """Start a kopf operator, as `kopf run PATH` does; with `module="my.op"` as `kopf run -m my.op`."""
        file = None if path is None else self.folder / path
        return run_operator(self.world, name, file, hosts=self._hosts, commands=self._commands, **options)

    def run_program(
        self, main: Callable[[], Any] | str | Path | None = None, name: str = OPERATOR, **options: Any
    ) -> SimProcess:
        """Start any other program: `run_program("main.py", args=["--debug"])` as `python main.py --debug`;
        with `module="my.op"` as `python -m my.op`; or by its main function."""
        program = self.folder / main if isinstance(main, str | Path) else main
        return run_program(self.world, name, program, hosts=self._hosts, commands=self._commands, **options)

    def run_cluster(self, nodes: int = 2) -> None:
        """Start a scheduler, the controllers of Deployments, Jobs and the like, and nodes: Pods run, without
        containers. Without it objects are stored and nothing acts on them but garbage collection."""
        from fathom.sim.scenarios.real import run_real_cluster  # noqa: PLC0415 - few tests need all of it

        run_real_cluster(self.world, nodes=[f"node-{number}" for number in range(1, nodes + 1)], spare=False)

    def serve(self, host: str, answer: HostAnswer) -> None:
        """Answer for a host that the operator talks to by HTTP. `answer` is called with each request, and
        returns the body, the status, or both: (404, {"message": "no such user"})."""
        self._hosts[host] = answer

    def command(self, name: str, answer: CommandAnswer) -> None:
        """Answer for a command that the operator starts: helm, openssl. `answer` is called each time, and
        returns what the command prints, its exit code, or both: (1, "", "no such release")."""
        self._commands[name] = answer

    async def apply(self, manifest: str | Path | Obj, **fields: Any) -> None:
        """Create or update the objects of a file, or one object. `fields` replace those of `spec`."""
        for obj in self._objects(manifest):
            changed = {**obj, "spec": {**obj.get("spec", {}), **fields}} if fields else obj
            if changed.get("kind") == "CustomResourceDefinition":
                _check_version(changed)
                await self.world.define(changed)
            else:
                await self.world.sleep(self.world.rng.uniform(0, BEFORE_A_WRITE_S))
                await self._served(changed)
                await self.world.apply(self.resource(changed), changed, _namespace(changed))

    async def delete(self, manifest: str | Path | Obj) -> None:
        """Delete the objects of a file, or one object, and wait until they are gone."""
        for obj in self._objects(manifest):
            resource, name, namespace = self.resource(obj), str(metadata(obj)["name"]), _namespace(obj)
            try:
                async with asyncio.timeout(GONE_WITHIN_S) as waiting:
                    await self.world.delete(resource, name, namespace)
            except TimeoutError:
                if not waiting.expired():
                    raise
                self._say_what_holds(resource, name, namespace)

    def _say_what_holds(self, resource: Resource, name: str, namespace: str) -> None:
        key = Key(namespace if resource.namespaced else "", name)
        objects = {f"{resource.name}/{namespace}/{name}": self.world.get(resource.name, key) or {}}
        for problem in FinalizersAreRemoved().at_rest(objects, self.world.now_s):
            self.world.broken(FinalizersAreRemoved.name, problem)

    async def sleep(self, seconds: float) -> None:
        """Wait in virtual time: it costs nothing."""
        await self.world.sleep(seconds)

    async def recover(self, *, quiet_s: float = QUIET_S, within_s: float = WITHIN_S) -> None:
        """Let some time pass in which things go wrong. Then nothing fails any more, and the operator must
        come to rest, with everything in order."""
        await self.world.sleep(FAULTS_S)
        await self.world.heal_and_settle(quiet_s=quiet_s, within_s=within_s)

    def list(self, resource: str, namespace: str = "default") -> list[Obj]:
        """What the cluster holds: `configmaps`, `greetings.example.dev`. `namespace=""`: of all."""
        return [obj for obj in self.world.list(resource, namespace) if not _is_of_the_cluster(obj)]

    def get(self, resource: str, name: str, namespace: str = "default") -> Obj | None:
        return self.world.get(resource, Key(namespace, name))

    def resource(self, obj: Obj) -> Resource:
        group, _, version = str(obj["apiVersion"]).rpartition("/")
        kind = str(obj["kind"])
        resource = _built_in(group, version, kind) or self._defined(group, version, kind)
        if resource is None:
            raise LookupError(f"{obj['apiVersion']} {kind} is not served: apply its definition first")
        return resource

    async def _served(self, obj: Obj) -> None:
        """Wait until an operator that defines its kinds itself has done so."""
        until_s = self.world.now_s + DEFINED_WITHIN_S
        while not self._is_served(obj) and self.world.now_s < until_s:
            if not any(process.machines for process in self.world.engine.processes.values()):
                return
            for problem in StaysUp().settled(self.world):
                self.world.broken(StaysUp.name, problem)
            await self.world.sleep(1)

    def _is_served(self, obj: Obj) -> bool:
        with suppress(LookupError):
            return bool(self.resource(obj))
        return False

    def _defined(self, group: str, version: str, kind: str) -> Resource | None:
        """By a definition that the test or the operator applied."""
        for definition in self.world.list(DEFINITIONS.name):
            spec = definition["spec"]
            served = [one["name"] for one in spec["versions"] if one["served"]]
            if (spec["group"], spec["names"]["kind"]) == (group, kind) and is_true(definition, "Established"):
                named = version if version in served else served[0]
                return Resource(group, named, spec["names"]["plural"], spec["scope"] == "Namespaced")
        return None

    def _objects(self, manifest: str | Path | Obj) -> Iterator[Obj]:
        if isinstance(manifest, dict):
            yield manifest
        else:
            yield from msgspec.json.decode(_read_manifest((self.folder / manifest).read_text()))


def _check_version(definition: Obj) -> None:
    if definition["apiVersion"] != V1:
        name = metadata(definition)["name"]
        raise ValueError(
            f"{name} is a definition of {definition['apiVersion']}, which Kubernetes 1.22 stopped to serve: "
            f"convert it to {V1} for the test"
        )


def _namespace(obj: Obj) -> str:
    return str(metadata(obj).get("namespace", "default"))


def _is_of_the_cluster(obj: Obj) -> bool:
    """The certificate authority that every namespace gets is nobody's intent."""
    return obj.get("kind") == "ConfigMap" and metadata(obj)["name"] == "kube-root-ca.crt"


@lru_cache(maxsize=64)
def _read_manifest(text: str) -> bytes:
    """Its objects as one JSON list: read once for all seeds, and decoded for each test, which may change it.
    The definitions of an operator can be so long that reading YAML takes longer than the run."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return encode_json([obj for obj in yaml.load_all(text, Loader=loader) if obj])


@cache
def _registry() -> Registry:
    return Registry.builtin()


def _built_in(group: str, version: str, kind: str) -> Resource | None:
    built_in = _registry().by_gvk(group, version, kind)
    return None if built_in is None else Resource(group, version, built_in.plural, built_in.namespaced)


# As a scenario.

OperatorStory = Callable[[OperatorTest], Awaitable[None]]


def operator_scenario(
    menu: Menu = MENU,
    *,
    servers: int = 1,
    scripted: Sequence[AnyFault] = (),
    checkers: Callable[[], Sequence[Checker]] = tuple,
) -> Callable[[OperatorStory], Scenario]:
    """Make a scenario of a test of an operator, for `fathom sim`. Relative paths begin beside its file."""

    def decorated(story: OperatorStory) -> Scenario:
        folder = Path(inspect.getfile(story)).parent

        async def told(world: World) -> None:
            await story(OperatorTest(world, folder))

        told.__name__, told.__doc__, told.__module__ = story.__name__, story.__doc__, story.__module__
        told.__wrapped__ = story  # type: ignore[attr-defined]  # where its lines are
        return judged(scenario(menu, servers=servers, scripted=scripted, checkers=checkers)(told))

    return decorated


def judged(of: Scenario) -> Scenario:
    """The scenario with the invariants of any operator, besides its own."""
    words = LastWords()
    return msgspec.structs.replace(
        of,
        checkers=_OperatorCheckers(of, words),
        tale=lambda chronicle, began_ns: (*_how_to_read(), *words.lines()),
    )


class LastWords(Checker):
    """What the programs of the last run printed: for its report."""

    name = "the last words of programs"  # Checks nothing.

    def __init__(self) -> None:
        self._processes: Mapping[str, SimProcess] = {}

    def begin(self, world: World) -> None:
        self._processes = world.engine.processes

    def lines(self) -> Iterator[str]:
        for process in self._processes.values():
            spoken = [machine for machine in process.machines if machine.last_lines]
            if spoken:
                yield ""
                yield f"What {process.name} printed last:"
                yield from (f"  {line}" for line in spoken[-1].last_lines[-LINES_SHOWN:])


class _OperatorCheckers:
    """Makes the checkers of each run. Before the first one it runs the scenario once without faults: what the
    operator makes then is what it means to make."""

    def __init__(self, of: Scenario, words: LastWords) -> None:
        self._scenario = of
        self._words = words
        self._calm: Mapping[Role, int] | None = None

    def __call__(self) -> Sequence[Checker]:
        if self._calm is None:
            self._calm = self._without_faults()
        return (*for_any_operator(self._calm), self._words, *self._scenario.checkers())

    def _without_faults(self) -> Mapping[Role, int]:
        counting = NothingIsMadeTwice(None)
        calm = msgspec.structs.replace(self._scenario, checkers=lambda: (counting,))
        ScenarioRun(calm, RunPlan(scenario=calm.name, seed=CALM_SEED)).run()
        return Counter(counting.counted)
