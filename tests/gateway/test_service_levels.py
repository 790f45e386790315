"""Connections of each Service by result, their response times, and the SLO burn over two windows."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable

import pytest
from tests.gateway.test_proxy import answering, asked, free_port, proxy, run
from tests.metrics.reading import strictly, value

from fathom.gateway.metrics import measure_proxy, service_families
from fathom.gateway.proxy import Proxy
from fathom.gateway.routes import RouteEndpoint, RouteListener, SeenObjects, make_table
from fathom.gateway.service_counts import RESULTS, SLOT_S, ServiceCounts, ServiceNumbers
from fathom.gateway.streams import break_off
from fathom.metrics.registry import Registry
from fathom.model.service_levels import Objective, ServiceLevel, WindowLevel, combined, objective_of

CONNECTIONS = "fathom_gateway_service_connections_total"


def page(gateway: Proxy) -> Registry:
    registry = Registry()
    measure_proxy(registry.part("gateway"), gateway)
    return registry


def listener(port: int, *endpoints: RouteEndpoint, name: str = "s/web", **more: object) -> RouteListener:
    return RouteListener("127.97.0.9", port, name, endpoints=endpoints, **more)  # type: ignore[arg-type]


async def until_counted(gateway: Proxy, total: int) -> dict[str, int]:
    """A connection is counted when it has ended on both sides, a moment after the client has read all."""
    async with asyncio.timeout(10):
        while True:
            counts = {service: numbers.totals for service, numbers in gateway.services.series()}
            totals = counts.get("s/web", {})
            if sum(totals.values()) >= total:
                return {result: count for result, count in totals.items() if count}
            await asyncio.sleep(0.01)


def test_carried_connections_are_counted_with_the_time_until_the_first_answer() -> None:
    async def story() -> None:
        gateway = proxy([])
        async with answering(b"a", "127.64.0.1") as port:
            here = await free_port("127.97.0.9")
            await gateway.apply((listener(here, RouteEndpoint("127.64.0.1", port, "s/a")),))
            for _ in range(5):
                assert await asked(here, b"x") == b"a heard x"
            assert await until_counted(gateway, 5) == {"carried": 5}
            families = strictly(page(gateway).exposition().decode())
            web = {"namespace": "s", "service": "web"}
            assert value(families, CONNECTIONS, **web, result="carried") == 5
            assert value(families, "fathom_gateway_service_error_ratio", **web, window="5m") == 0
            answers = families["fathom_gateway_service_response_seconds"].samples
            assert [one.value for one in answers if one.name.endswith("_count")] == [5]
            await gateway.close()

    run(story)


def test_a_pod_that_breaks_off_counts_as_a_failure_and_a_client_that_does_does_not() -> None:
    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        word = await reader.readexactly(4)
        writer.write(b"half")
        await writer.drain()
        if word == b"stop":
            break_off(writer)
        else:
            await reader.read()

    async def story() -> None:
        gateway = proxy([])
        server = await asyncio.start_server(half, "127.64.0.1", 0)
        here = await free_port("127.97.0.9")
        pod = RouteEndpoint("127.64.0.1", server.sockets[0].getsockname()[1], "s/a")
        await gateway.apply((listener(here, pod),))
        reader, writer = await asyncio.open_connection("127.97.0.9", here)
        writer.write(b"stop")
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(5)
        assert await until_counted(gateway, 1) == {"reset": 1}
        reader, writer = await asyncio.open_connection("127.97.0.9", here)
        writer.write(b"stay")
        assert await reader.readexactly(4) == b"half"
        break_off(writer)
        assert await until_counted(gateway, 2) == {"reset": 1, "carried": 1}
        server.close()
        await gateway.close()

    run(story)


def test_a_connection_that_no_pod_accepts_burns_the_error_budget() -> None:
    async def story() -> None:
        gateway = proxy([])
        here, dead = await free_port("127.97.0.9"), await free_port("127.64.0.2")
        objective = Objective(99.0, "annotation fathom.dev/slo")
        pod = RouteEndpoint("127.64.0.2", dead, "s/dead")
        await gateway.apply((listener(here, pod, objective=objective, service_uid="u-1"),))
        with pytest.raises(ConnectionResetError):
            await asked(here, b"x")
        assert await until_counted(gateway, 1) == {"no_endpoint": 1}
        families = strictly(page(gateway).exposition().decode())
        burn = value(families, "fathom_gateway_service_slo_burn_rate", service="web", window="1h")
        assert burn == pytest.approx(100)  # Everything failed, and one of a hundred may.
        stated = page(gateway).states(("u-1", "u-other"))["gateway"]["services"]
        assert list(stated) == ["u-1"]
        assert stated["u-1"]["windows"]["5m"] == {"connections": 1, "failed": 1}
        assert stated["u-1"]["results"] == {"no_endpoint": 1}
        await gateway.close()

    run(story)


def failed_of(moments: Iterable[tuple[float, bool]], seconds: float, now_s: float) -> tuple[int, int]:
    """A slow, obvious twin: the connections of the slots that the window touches."""
    oldest = (now_s - seconds) // SLOT_S + 1
    within = [bad for at_s, bad in moments if at_s // SLOT_S >= oldest]
    return len(within), sum(within)


@pytest.mark.parametrize("seed", range(20))
def test_windows_count_what_ended_within_them_and_memory_is_bounded(seed: int) -> None:
    draw = random.Random(seed)
    counts, moments, now_s = ServiceCounts(), [], draw.uniform(0, 1e6)
    for _ in range(2000):
        now_s += draw.expovariate(1 / draw.choice((0.1, 5, 400)))
        result = draw.choice(RESULTS)
        counts.count(result, now_s)
        moments.append((now_s, result != "carried"))
    assert len(counts._slots) <= 3600 / SLOT_S + 1
    for seconds in (300.0, 3600.0):
        for later_s in (0.0, draw.uniform(0, 4000)):
            window = counts.window(seconds, now_s + later_s)
            total = sum(window.values())
            assert (total, total - window["carried"]) == failed_of(moments, seconds, now_s + later_s)


def test_services_beyond_the_bound_share_one_set_of_series_and_those_that_left_have_none() -> None:
    numbers = ServiceNumbers(0.0, services_max=3)
    table = tuple(
        RouteListener("127.97.0.9", port, f"s/web-{port}", service_uid=f"u-{port}") for port in range(10)
    )
    numbers.change(table)
    for port in range(10):
        numbers.count(f"s/web-{port}", "carried", 10.0)
    registry = Registry()
    registry.register("services", lambda: service_families(numbers, 10.0))
    families = strictly(registry.exposition().decode())
    assert value(families, CONNECTIONS, service="other", result="carried") == 7
    services = {sample.labels["service"] for sample in families[CONNECTIONS].samples}
    assert services == {"web-0", "web-1", "web-2", "other"}
    assert set(numbers.levels_by_uid([f"u-{port}" for port in range(10)], 10.0)) == {"u-0", "u-1", "u-2"}
    numbers.change(table[2:])
    assert {service for service, _ in numbers.series()} == {"s/web-2", "other/other"}


def test_without_connections_there_is_no_rate_instead_of_zero() -> None:
    numbers = ServiceNumbers(0.0)
    numbers.change((RouteListener("127.97.0.9", 80, "s/web", service_uid="u-1"),))
    numbers.count("s/web", "carried", 0.0)
    registry = Registry()
    registry.register("services", lambda: service_families(numbers, 4000.0))
    families = strictly(registry.exposition().decode())
    assert families["fathom_gateway_service_error_ratio"].samples == []
    assert families["fathom_gateway_service_slo_burn_rate"].samples == []
    assert numbers.levels_by_uid(("u-1",), 4000.0)["u-1"].windows["1h"] == WindowLevel(0, 0)


@pytest.mark.parametrize(
    ("text", "percent"),
    [
        ("99.5", 99.5),
        (" 95 %", 95.0),
        ("100", 99.9),
        ("0", 99.9),
        ("-3", 99.9),
        ("nan", 99.9),
        ("high", 99.9),
    ],
)
def test_the_objective_is_the_annotations_and_a_wrong_one_is_named(text: str, percent: float) -> None:
    objective = objective_of({"fathom.dev/slo": text})
    assert objective.percent == percent
    assert objective.source.startswith("annotation" if percent != 99.9 else "the default: annotation")
    assert objective_of({}) == Objective(99.9, "the default")


def test_the_table_has_the_objective_of_each_service() -> None:
    meta = {"namespace": "s", "name": "web", "uid": "u-1", "annotations": {"fathom.dev/slo": "99"}}
    spec = {"clusterIP": "127.96.0.1", "ports": [{"port": 80}]}
    (listener,) = make_table(SeenObjects([{"metadata": meta, "spec": spec}], []))
    assert (listener.service_uid, listener.objective.percent) == ("u-1", 99.0)


def test_a_fast_burn_needs_both_windows_and_enough_connections() -> None:
    def level(short: WindowLevel, long: WindowLevel) -> ServiceLevel:
        return ServiceLevel(service="s/web", windows={"5m": short, "1h": long})

    assert level(WindowLevel(20, 2), WindowLevel(100, 4)).burns_fast
    assert not level(WindowLevel(20, 0), WindowLevel(100, 4)).burns_fast  # It is over.
    assert not level(WindowLevel(20, 2), WindowLevel(1000, 4)).burns_fast  # It does not matter yet.
    assert not level(WindowLevel(3, 1), WindowLevel(3, 1)).burns_fast
    both = combined(
        (level(WindowLevel(10, 2), WindowLevel(10, 2)), level(WindowLevel(10, 0), WindowLevel(10, 0)))
    )
    assert both is not None
    assert both.windows == {"5m": WindowLevel(20, 2), "1h": WindowLevel(20, 2)}
