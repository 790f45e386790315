"""Two people carry out one run of a runbook. Their clients crash, lose answers and take the run from each
other: each step is done at most once, and an abort leaves nothing but what arrived after it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from fathom.client.api import Api
from fathom.kinds import runbook_run
from fathom.kinds.runbook import RunbookSpec, spec_hash
from fathom.kinds.runbook_run import RunbookRun
from fathom.kinds.shape import API_VERSION, read
from fathom.model.body import decode_json
from fathom.model.errors import ApiError
from fathom.model.objects import Key, Obj, lookup
from fathom.model.resources import DEPLOYMENTS
from fathom.model.times import SECOND_NS, moment_ns
from fathom.seams.process import Inside
from fathom.sim.checkers.runs import of_runs
from fathom.sim.scenarios.basics import CONFIG_MAPS
from fathom.sim.scenarios.staff import QUIET_S, all_but
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, SlowRequest
from fathom.sim.world.invariants import Checker, Found, Seen
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World
from fathom.steer.record_writer import RUNS, RunLost
from fathom.steer.runner import Runner, Surroundings, is_held

OPERATORS = ("operator-1", "operator-2")
RUN = Key("default", "run-1")
AGENT = f"fathom runbook {RUN.name} "  # With the step.
LOOK_S = 3.0
LATE_S = 15.0  # So long an abort waits for a request whose outcome is unknown.
IMPATIENCE = 0.15  # How often somebody takes a run although another one is at work.

WEB = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
NOTE = {"apiVersion": "v1", "kind": "ConfigMap", "name": "note"}
CONTENT = msgspec.convert(
    {
        "steps": [
            {
                "id": "note",
                "action": {
                    "create": {
                        "apiVersion": "v1",
                        "kind": "ConfigMap",
                        "metadata": {"name": "note"},
                        "data": {"word": "moin"},
                    }
                },
                "compensation": {"delete": NOTE},
            },
            {
                "id": "grow",
                "action": {"scale": {"target": WEB, "replicas": 3}},
                "compensation": {"restore": True},
            },
            {
                "id": "label",
                "action": {"patch": {"target": WEB, "patch": {"metadata": {"labels": {"word": "moin"}}}}},
                "compensation": {"restore": True},
            },
            {
                "id": "tidy",
                "action": {"delete": {"apiVersion": "v1", "kind": "ConfigMap", "name": "old"}},
                "reversible": False,
            },
        ]
    },
    RunbookSpec,
)


class Operator:
    """Goes on with the run whenever nobody else seems to, and sometimes although somebody does. Aborts it if
    the options say so, even when it has succeeded (`regrets`); and looks when everybody looks, if they say
    that."""

    def __init__(self, inside: Inside) -> None:
        self._api = Api(inside.seam, headers=(("user-agent", "fathom"),))
        self._rng = inside.outside.rng
        self._clock = inside.outside.clock
        self._me = f"{inside.options['who']}-{inside.incarnation}"
        self._aborts = bool(inside.options["aborts"])
        self._ends = (runbook_run.SUCCEEDED, runbook_run.ABORTED)[bool(inside.options.get("regrets")) :]
        self._at_once = bool(inside.options.get("at_once"))
        self._impatience = float(inside.options.get("impatience", IMPATIENCE))
        inside.domain.create_task(self._work())

    async def _work(self) -> None:
        while not await self._looked():  # noqa: ASYNC110 - a person looks now and then
            await asyncio.sleep(self._wait_s())

    def _wait_s(self) -> float:
        if self._at_once:  # On the minute, as after a call.
            return LOOK_S - self._clock.now_ns() / SECOND_NS % LOOK_S
        return LOOK_S * (0.5 + self._rng.random())

    async def _looked(self) -> bool:
        """Whether nothing is left to do."""
        try:
            run = await self._api.get(RUNS, *RUN)
            if run is None:
                return False
            status = read(RunbookRun, run).status
            if status.phase in self._ends:
                return True
            if not is_held(status, self._clock.now_ns()) or self._rng.random() < self._impatience:
                await self._carry_on(run)
        except (ApiError, RunLost):
            pass
        return False

    async def _carry_on(self, run: Obj) -> None:
        around = Surroundings(
            now_ns=self._clock.now_ns,
            elapsed_ns=self._clock.monotonic_ns,
            sleep=asyncio.sleep,
            tell=lambda line: None,
            answer=_nobody,
        )
        runner = Runner(self._api, run, holder=self._me, around=around)
        await (runner.abort("a test") if self._aborts else runner.resume())


async def _nobody(step: str, question: str) -> str:
    return ""


class StepsOnce(Checker):
    """By the user agent, which names the step. What arrives later than LATE_S, and after its step was undone,
    is remembered: nobody can call a request back, and what runs make ends by itself. What arrives sooner, an
    abort has to wait for."""

    name = "each step of a run is done at most once"

    def __init__(self) -> None:
        self._done: dict[str, int] = {}  # Step of a run -> the revision at which it was done.
        self._undone: set[str] = set()
        self._acted_ns: dict[str, int] = {}  # When a request of each step was sent, as its sender wrote it.
        self.late: set[str] = set()

    def begin(self, world: World) -> None:
        self._engine = world.engine

    def commit(self, change: Seen) -> Found:
        if change.resource == RUNS.name:
            self._note(change.new)
            return None
        agent = dict(change.headers).get("user-agent", "")
        if not agent.startswith(AGENT):
            return None
        step = agent.removeprefix(AGENT)
        if step in self._done:
            return f"{step} was done at revision {self._done[step]}, and again at {change.revision}"
        self._done[step] = change.revision
        if step in self._undone and self._is_late(step):
            self.late.add(step)
        return None

    def _is_late(self, step: str) -> bool:
        """Perhaps: who waits may have another clock than who has sent it."""
        errors_ns = self._engine.clock_errors_ns
        took_ns = self._engine.epoch_ns + self._engine.now_ns - self._acted_ns.get(step, 0)
        return took_ns + max(errors_ns) - min(errors_ns) >= LATE_S * SECOND_NS

    def _note(self, run: Obj | None) -> None:
        for step in lookup(run or {}, "status", "steps") or ():
            name, state = str(step["id"]), step.get("state")
            if state == runbook_run.UNDONE:
                self._undone.add(name)
            elif state == runbook_run.ACTING:
                self._acted_ns[name] = moment_ns(step.get("actedAt")) or 0


class OneHolderAtATime(Checker):
    """Whoever takes a run over has it: the client before writes nothing into its record any more. And a step
    changes an object only as it was read."""

    name = "one client at a time carries a run out"

    def commit(self, change: Seen) -> Found:
        if change.resource == RUNS.name:
            before, after = _holder(change.old), _holder(change.new)
            if change.new is not None and after < before:
                return f"the record had holder {before}, and was written by {after}"
            return None
        ask, agent = change.ask, dict(change.headers).get("user-agent", "")
        if ask is None or ask.method != "PATCH" or not agent.startswith(AGENT):
            return None
        body = decode_json(ask.body) if isinstance(ask.body, bytes) else ask.body
        if lookup(body, "metadata", "resourceVersion"):
            return None
        return f"{agent} patched {change.path} whatever it had become since it was read"


def _holder(run: Obj | None) -> tuple[int, int]:
    holder = lookup(run or {}, "status", "holder") or {}
    return int(holder.get("epoch") or 0), int(holder.get("sequence") or 0)


def checkers() -> Sequence[Checker]:
    return [StepsOnce(), OneHolderAtATime(), *of_runs()]


@scenario(
    Menu(
        processes=OPERATORS,
        kinds=("/runbookruns", "/configmaps", "/deployments"),
        seconds=0.5,  # A run without faults takes half of it.
        most=10,
        without=all_but(
            "crash", "crash-at-write", "lose-request", "lose-reply", "slow-request", "slow-reply", "pause",
            "partition", "skew", "commit-unknown", "commit-lost",
        ),
    ),
    checkers=checkers,
)  # fmt: skip
async def half_done_runbook(world: World) -> None:
    """A run is carried out, left, taken over and sometimes aborted; it ends, and did each step at most
    once."""
    await _furnish(world)
    aborts = world.rng.random() < 0.4
    for number, name in enumerate(OPERATORS):
        world.process(name, Operator, who=name, aborts=aborts and number == 1)
    await _make_again(world, for_s=90)
    await world.heal_and_settle(quiet_s=QUIET_S)
    _check_end(world)


STEP_REQUESTS = (
    "POST /api/v1/namespaces/default/configmaps",
    "PATCH /apis/apps/v1/namespaces/default/deployments",
)


def a_step_is_slow(seed: str) -> Sequence[AnyFault]:
    """The first request of a step arrives late, though not later than an abort waits for it. The seed says
    which step."""
    number = int(seed) if seed.isdigit() else 0
    match, delay_s = STEP_REQUESTS[number % 2], 2.0 + number % 11
    return [SlowRequest(at_s=0.0, target=OPERATORS[0], match=match, delay_s=delay_s)]


@scenario(Menu(processes=OPERATORS), faults_of=a_step_is_slow, checkers=checkers)
async def aborted_while_a_step_is_on_its_way(world: World) -> None:
    """One person carries a run out, and a request is slow; another one takes the run over and aborts it at
    once: nothing of it is left, also when the request arrives after that."""
    await _furnish(world)
    world.process(OPERATORS[0], Operator, who=OPERATORS[0], aborts=False)
    await world.sleep(0.5 + 4 * world.rng.random())
    world.process(OPERATORS[1], Operator, who=OPERATORS[1], aborts=True, impatience=1.0)
    await _make_again(world, for_s=90)
    await world.heal_and_settle(quiet_s=QUIET_S)
    _check_end(world)


async def _furnish(world: World) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    await world.apply(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec})
    await world.apply(CONFIG_MAPS, {"metadata": {"name": "old"}})
    pinned = {"name": "book", "source": "cluster", "version": 1, "hash": spec_hash(CONTENT)}
    content = msgspec.json.decode(msgspec.json.encode(CONTENT))
    run = {
        "apiVersion": API_VERSION,
        "kind": runbook_run.DEFINITION.kind,
        "metadata": {"name": RUN.name},
        "spec": {"runbook": pinned, "content": content},
    }
    await world.apply(RUNS, run)


async def _make_again(world: World, *, for_s: float) -> None:
    """Somebody else makes a new object with the name of the one that the run deletes: it is not the run's."""
    again, until_s = False, world.now_s + for_s
    while world.now_s < until_s:
        await world.sleep(0.5)
        if not again and world.get(CONFIG_MAPS.name, Key("default", "old")) is None:
            await world.apply(CONFIG_MAPS, {"metadata": {"name": "old"}})
            again = True


def _check_end(world: World) -> None:
    run = world.get(RUNS.name, RUN)
    assert run is not None
    phase = lookup(run, "status", "phase")
    web = world.get(DEPLOYMENTS.name, Key("default", "web"))
    note = world.get(CONFIG_MAPS.name, Key("default", "note"))
    effects = {
        "note": note is not None,
        "grow": lookup(web, "spec", "replicas") == 3,
        "label": lookup(web, "metadata", "labels", "word") == "moin",
    }
    late = next(checker for checker in world.checkers if isinstance(checker, StepsOnce)).late
    wanted = dict.fromkeys(effects, phase == runbook_run.SUCCEEDED)
    wrong = [step for step in effects if effects[step] != wanted[step] and step not in late]
    ended = phase in (runbook_run.SUCCEEDED, runbook_run.ABORTED)
    if not ended or wrong:
        lines = [line.get("text") for line in lookup(run, "status", "history") or ()]
        world.broken("a run ends as its record says", f"{phase}, wrong: {wrong}; {lines[-5:]}")
    world.sometimes(f"a run that {'was aborted' if phase == runbook_run.ABORTED else 'succeeded'}")


SCENARIOS: tuple[Scenario, ...] = (half_done_runbook, aborted_while_a_step_is_on_its_way)
