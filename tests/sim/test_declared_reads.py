"""Nothing of ours decides from a kind that it does not declare to read: not in the API server either."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from types import FrameType
from typing import Any

import pytest

from fathom.api.admission.plugin import Plugin
from fathom.api.watch_cache import WatchCache
from fathom.client.api import Api, Resource
from fathom.explain.coupling.actors import actors
from fathom.explain.coupling.kind_names import kind_of
from fathom.model.accounts import SCHEDULER
from fathom.model.user import User
from fathom.seams.process import Inside
from fathom.sim.checkers.declared_reads import ReadsAreDeclared
from fathom.sim.scenarios import SCENARIOS
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.scenario import plan_of, scenario, tell
from fathom.sim.world.world import World

# Between them: quotas, policies, preemption, budgets, claims, namespaces that go, overrides, a gateway.
STORIES = (
    "quota-changes",
    "rollback-among-others",
    "claims",
    "overrides-end",
    "reserved-and-not-told",
    "owners-come-and-go",
    "reservations",
)
HOUSEKEEPING = "fathom.controllers.housekeeping."


def curious(inside: Inside) -> None:
    """Reads a Secret."""
    api = Api(inside.seam)
    inside.domain.create_task(api.get(Resource("", "v1", "secrets"), "default", "x"), name="curious")


def test_a_process_that_reads_an_undeclared_kind_is_found() -> None:
    @scenario(Menu(processes=("scheduler",), most=0), checkers=lambda: [ReadsAreDeclared()])
    async def a_scheduler_reads_secrets(world: World) -> None:
        """Something runs as the scheduler, and reads what no scheduler declares."""
        world.process("scheduler", curious, account=User(SCHEDULER))
        await world.settle(quiet_s=5, within_s=60)

    violation = tell(a_scheduler_reads_secrets, plan_of(a_scheduler_reads_secrets, "0")).violation
    assert violation is not None
    assert "scheduler reads secrets, which no part of it declares" in violation.message


@pytest.mark.parametrize("name", STORIES)
def test_the_api_servers_own_parts_read_what_they_declare(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: set[tuple[str, str]] = set()
    for method in ("get", "list"):
        monkeypatch.setattr(WatchCache, method, noting(getattr(WatchCache, method), read))
    assert tell(SCENARIOS[name], plan_of(SCENARIOS[name], "1")).violation is None
    assert read, "nothing was noted"
    undeclared = sorted((reader, kind) for reader, kind in read if not is_declared(reader, kind))
    assert undeclared == []


def noting(method: Any, read: set[tuple[str, str]]) -> Any:
    def noted(view: WatchCache, resource: str, *rest: Any) -> Any:
        reader = reader_of(sys._getframe(1))
        if reader:
            read.add((reader, kind_of(resource) or resource))
        return method(view, resource, *rest)

    return noted


def reader_of(frame: FrameType | None) -> str:
    """The part of the API server that reads, from the code that reads; '' for what serves others."""
    while frame is not None:
        plugin = frame.f_locals.get("self")
        module = str(frame.f_globals.get("__name__", ""))
        if isinstance(plugin, Plugin):
            return f"admission/{plugin.name}"
        if module.startswith("fathom.api.binding."):
            return "binder"
        if module.startswith(HOUSEKEEPING):
            return module.removeprefix(HOUSEKEEPING)
        if module.startswith("fathom.api.server"):
            return ""
        frame = frame.f_back
    return ""


def is_declared(reader: str, kind: str) -> bool:
    return any(known in {kind, "*"} for known in declared(reader))


@cache
def declared(reader: str) -> frozenset[str]:
    return frozenset(read.kind for actor in actors_of(reader) for read in actor.reads)


def actors_of(reader: str) -> Iterator[Any]:
    for actor in actors().values():
        is_binding = reader == "binder" and actor.name in {"binder", "eviction"}
        is_housekeeping = "/" not in reader and reader != "binder" and actor.name.startswith("housekeeping/")
        if actor.name == reader or is_binding or is_housekeeping:
            yield actor
