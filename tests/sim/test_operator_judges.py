"""The invariants for any operator: each is broken by an operator with the bug that it is about."""

from __future__ import annotations

import argparse
import base64
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import requests

from fathom.model.objects import Key, Obj, lookup, uid_of
from fathom.model.resource import Resource
from fathom.sim.checkers.operators import NoUpdateFight, for_any_operator
from fathom.sim.foreign.operator_test import OperatorTest
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Seen
from fathom.sim.world.scenario import RunPlan, Scenario, scenario, tell
from fathom.sim.world.world import World

OPERATORS = Path(__file__).parents[2] / "examples" / "operators"
API = "http://kubernetes"
MAPS = f"{API}/api/v1/namespaces/default/configmaps"
HELLO = f"{API}/apis/example.dev/v1/namespaces/default/greetings/hello"
GREETINGS = Resource("example.dev", "v1", "greetings")
MERGE = {"content-type": "application/merge-patch+json"}


def told(*programs: Callable[[], None], later: Obj | None = None, delete: bool = False) -> tuple[str, str]:
    """The invariant that these programs break, and what its report says. `later`: the spec changes."""
    result = tell(greetings(*programs, later=later, delete=delete), RunPlan(scenario="judged", seed="1"))
    assert result.violation is not None
    return result.violation.invariant, result.violation.message


def greetings(*programs: Callable[[], None], later: Obj | None, delete: bool) -> Scenario:
    async def story(world: World) -> None:
        operator = OperatorTest(world, OPERATORS)
        await operator.apply("greeting-crd.yaml")
        await operator.apply("hello.yaml")
        for number, program in enumerate(programs):
            operator.run_program(program, name=f"operator-{number}")
        await operator.sleep(10)
        if later is not None:
            await operator.apply("hello.yaml", **later)
        if delete:
            hello = world.get(GREETINGS.name, Key("default", "hello"))
            await world.api.delete(GREETINGS, "default", "hello", uid=uid_of(hello or {}))
        await operator.recover(within_s=300)

    return scenario(Menu(processes=("operator-0",)), name="judged", checkers=for_any_operator)(story)


def asks_all_the_time() -> None:
    while True:
        requests.get(MAPS, timeout=5)
        time.sleep(0.7)


def test_requests_without_a_reason_are_a_hot_loop() -> None:
    invariant, message = told(asks_all_the_time)
    assert invariant == "no hot loop: an operator with nothing to do is quiet"
    assert "operator-0 sent over 60 requests in the last minute" in message
    assert "most often GET /api/v1/namespaces/default/configmaps" in message


def looks_at_a_hundred_places_twice_a_minute() -> None:
    while True:
        for number in range(100):
            requests.get(f"{API}/api/v1/namespaces/space-{number}/configmaps", timeout=5)
        time.sleep(30)


def test_a_program_that_polls_is_no_hot_loop() -> None:
    story = greetings(looks_at_a_hundred_places_twice_a_minute, later=None, delete=False)
    assert tell(story, RunPlan(scenario="judged", seed="1")).violation is None


def writes_all_the_time() -> None:
    requests.post(MAPS, json={"metadata": {"name": "card"}}, timeout=5)
    while True:
        requests.patch(f"{MAPS}/card", json={"data": {"now": str(time.time())}}, headers=MERGE, timeout=5)
        time.sleep(5)


def test_writes_without_a_reason_keep_the_world_from_its_rest() -> None:
    assert told(writes_all_the_time) == ("liveness", "the world comes to rest: not within 300 s")


def insists_on(value: str) -> Callable[[], None]:
    def insists() -> None:
        requests.post(MAPS, json={"metadata": {"name": "card"}}, timeout=5)
        while True:
            card = requests.get(f"{MAPS}/card", timeout=5).json()
            if lookup(card, "data", "owner") != value:
                requests.patch(f"{MAPS}/card", json={"data": {"owner": value}}, headers=MERGE, timeout=5)
            time.sleep(1)

    return insists


def test_two_operators_that_undo_each_other_are_a_fight() -> None:
    invariant, message = told(insists_on("a"), insists_on("b"))
    assert invariant == "no update fight: two writers do not undo each other's changes"
    assert "card" in message
    assert "What to do: let one of them decide each field." in message


def test_who_makes_again_what_is_collected_is_told_to_look_at_the_owner() -> None:
    event = {
        "reason": "FieldHasTwoWriters",
        "involvedObject": {"kind": "ConfigMap", "name": "card"},
        "message": "the object is deleted and created again in turn by housekeeping/garbage-collector and a",
    }
    seen = Seen("events", Key("default", "e"), 9, None, event, at_s=1.0, by="api-1", incarnation=1)
    found = NoUpdateFight().commit(seen)
    assert "Read the owner again before creating something for it." in str(found)


def cannot_start() -> None:
    sys.stdout.write("reading the settings\n")
    raise KeyError("DATABASE_URL")


def test_a_program_that_ends_at_every_start_is_told_with_its_last_words() -> None:
    invariant, message = told(cannot_start)
    assert invariant == "the operator stays up"
    assert "operator-0 ended 15 times, the last time with KeyError: 'DATABASE_URL'." in message
    assert "It said last:\n  reading the settings\n  Traceback (most recent call last):\n" in message
    assert 'in cannot_start\n      raise KeyError("DATABASE_URL")\n' in message


def refuses_its_arguments() -> None:
    argparse.ArgumentParser(prog="main.py").parse_args(["--unknown"])


def test_what_a_program_prints_before_it_exits_is_told() -> None:
    _, message = told(refuses_its_arguments)
    assert "the last time with SystemExit: 2." in message
    assert "  main.py: error: unrecognized arguments: --unknown\n" in message


def adds_a_finalizer() -> None:
    body = {"metadata": {"finalizers": ["example.dev/cleanup"]}}
    requests.patch(HELLO, json=body, headers=MERGE, timeout=5)


def test_a_finalizer_that_nobody_removes_is_named() -> None:
    invariant, message = told(adds_a_finalizer, delete=True)
    assert invariant == "what was deleted goes away: finalizers are removed"
    assert "greetings.example.dev/default/hello was deleted at 2026-01-01T00:00:1" in message
    assert "held by example.dev/cleanup." in message


def reports_once() -> None:
    requests.patch(f"{HELLO}/status", json={"status": {"observedGeneration": 1}}, headers=MERGE, timeout=5)


def test_a_status_of_an_older_spec_is_named() -> None:
    invariant, message = told(reports_once, later={"copies": 5})
    assert invariant == "a status names the generation it observed"
    assert "is at generation 2, but its status is of generation 1." in message


def tells_the_password() -> None:
    secret = {"metadata": {"name": "db"}, "data": {"password": base64.b64encode(b"hunter2!").decode()}}
    requests.post(f"{API}/api/v1/namespaces/default/secrets", json=secret, timeout=5)
    about = {"kind": "Secret", "namespace": "default", "name": "db"}
    event: Obj = {
        "metadata": {"name": "e"},
        "involvedObject": about,
        "message": "cannot log in with hunter2!",
    }
    requests.post(f"{API}/api/v1/namespaces/default/events", json=event, timeout=5)


def test_a_secret_in_an_event_is_named_but_not_told() -> None:
    invariant, message = told(tells_the_password)
    assert invariant == "no secret in Events"
    assert "operator-0 wrote an Event whose message contains a value of secrets/default/db." in message
    assert "hunter2" not in message


def test_an_operator_without_these_bugs_is_silent() -> None:
    quiet = greetings(lambda: None, later={"copies": 3}, delete=True)
    assert tell(quiet, RunPlan(scenario="judged", seed="1")).violation is None


def test_an_object_of_an_unknown_kind_is_refused_with_what_to_do() -> None:
    async def story(world: World) -> None:
        operator = OperatorTest(world, OPERATORS)
        with pytest.raises(
            LookupError, match=r"example.dev/v1 Greeting is not served: apply its definition first"
        ):
            await operator.apply("hello.yaml")
        with pytest.raises(FileNotFoundError, match="there is no operator at"):
            operator.run("nothing.py")
        assert operator.get("configmaps", "none") is None
        assert world.get("greetings.example.dev", Key("default", "hello")) is None

    result = tell(
        scenario(Menu(processes=("x",)), name="judged")(story), RunPlan(scenario="judged", seed="1")
    )
    assert result.violation is None
