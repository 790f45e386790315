"""Tests of the store may be coroutines: they run on the loop that a server would use. A store they are given
is closed when they end."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop
from tests.store.engines import ENGINES, EtcdServer, Place, bounds_of, running_etcd

from fathom.store.protocol import Store


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    given: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in names}

    async def story() -> None:
        try:
            await pyfuncitem.obj(**given)
        finally:
            if "store" in given:
                await given["store"].close()

    plain = "plain_asyncio" in pyfuncitem.fixturenames
    factory = asyncio.new_event_loop if plain else uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(story())
    return True


@pytest.fixture(scope="session")
def etcd_server() -> Iterator[EtcdServer]:
    with running_etcd("--experimental-watch-progress-notify-interval=200ms") as server:
        yield server


@pytest.fixture(params=ENGINES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    engine = request.param
    server = request.getfixturevalue("etcd_server") if engine == "etcd" else None
    with bounds_of(engine):
        yield Place(engine, tmp_path / "data", server)


@pytest.fixture
def store(place: Place) -> Store:
    return place.open()


@pytest.fixture
def plain_asyncio() -> None:
    """Run the test on asyncio's own loop."""
