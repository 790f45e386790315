"""A controller sees only the kinds that it declares to read."""

from __future__ import annotations

from typing import ClassVar

import pytest

from fathom.cache.snapshot import Snapshot, UndeclaredRead
from fathom.control.kit import Kit
from fathom.control.process import shown_kinds
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.watches import CONFIG_MAP, SECRET, Primary, Related, Watch
from fathom.model.declared import Reads
from fathom.model.objects import Key
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.scenario import plan_of, scenario, tell
from fathom.sim.world.world import World


class Reader:
    name = "reader"
    watches: ClassVar[tuple[Watch, ...]] = (Primary(CONFIG_MAP, conditions=False),)
    reads: ClassVar[tuple[Reads, ...]] = (Reads("ConfigMap", ("data",)),)
    seen: ClassVar[list[tuple[str, ...] | str]] = []

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def reconcile(self, key: Key) -> ReconcileResult:
        view = self._kit.snapshot()
        self.seen.append(view.kinds)
        try:
            view.list("Secret")
        except UndeclaredRead as error:
            self.seen.append(str(error))
        return ReconcileResult.never()


class Neighbour:
    """Runs in the same process, and has both kinds cached."""

    name = "neighbour"
    watches: ClassVar[tuple[Watch, ...]] = (Primary(CONFIG_MAP, conditions=False), Related(SECRET))
    seen: ClassVar[list[tuple[str, ...]]] = []

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def reconcile(self, key: Key) -> ReconcileResult:
        self.seen.append(self._kit.snapshot().kinds)
        return ReconcileResult.never()


@scenario(Menu(processes=("manager",), most=0))
async def reading(world: World) -> None:
    """A controller reads what its neighbour has cached."""
    run_controllers(world, "manager", Reader, Neighbour)
    await world.apply(CONFIG_MAP.resource, {"metadata": {"name": "one"}})
    await world.sleep(5)


def test_a_kind_that_only_another_controller_of_the_process_declares_cannot_be_read() -> None:
    Reader.seen.clear()
    Neighbour.seen.clear()
    assert tell(reading, plan_of(reading, "0")).violation is None
    why = "reader does not declare to read Secret: it declares ConfigMap"
    assert set(Reader.seen) == {("ConfigMap",), why}
    assert set(Neighbour.seen) == {("ConfigMap", "Secret")}, "without a declaration: what it watches"


def test_a_declared_kind_must_be_watched() -> None:
    class Wrong(Reader):
        reads: ClassVar[tuple[Reads, ...]] = (Reads("Secret"),)

    with pytest.raises(TypeError, match="reader declares to read Secret, which it does not watch"):
        shown_kinds(Wrong)


def test_what_is_asked_for_when_needed_is_not_cached() -> None:
    class Asking(Reader):
        reads: ClassVar[tuple[Reads, ...]] = (Reads("ConfigMap"), Reads("PodMetrics", source="api"))

    assert shown_kinds(Asking) == ("ConfigMap",)


def test_a_snapshot_without_a_reader_says_which_caches_there_are() -> None:
    with pytest.raises(KeyError, match="no cache of Pod"):
        Snapshot({}, taken_s=0.0).list("Pod")
