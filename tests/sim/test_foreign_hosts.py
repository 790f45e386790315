"""Hosts besides the API server: the test answers for them, or the program is told that nobody does."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest
import requests
from tests.sim.test_foreign_programs import run

from fathom.sim.foreign.hosts import HostRequest
from fathom.sim.foreign.operator_test import OperatorTest
from fathom.sim.world.scenario import Result
from fathom.sim.world.world import World

Main = Callable[[list[Any]], Any]


def told(main: Main, **answers: Any) -> tuple[list[Any], Result]:
    """What `main` put into its list, where the test answers for these hosts."""
    found: list[Any] = []

    async def story(world: World) -> None:
        operator = OperatorTest(world, Path())
        for host, answer in answers.items():
            operator.serve(host.replace("_", "."), answer)
        operator.run_program(lambda: main(found))
        await world.sleep(60)

    return found, run(story)


def found_by(main: Main, **answers: Any) -> list[Any]:
    found, result = told(main, **answers)
    assert result.violation is None, result.violation
    return found


def test_a_test_answers_for_a_host_by_http_and_https() -> None:
    asked: list[HostRequest] = []

    def vault(request: HostRequest) -> Any:
        asked.append(request)
        made = (201, {"id": 7}, {"Location": "/v1/users/7"})
        return made if request.method == "POST" else {"path": request.path}

    def main(found: list[Any]) -> None:
        found.append(requests.get("http://vault.example.com:8200/v1/secret?version=2", timeout=9).json())
        headers = {"Authorization": "Bearer x"}
        made = httpx.post("https://vault.example.com/v1/users", json={"name": "a"}, headers=headers)
        found.append((made.status_code, made.json(), made.headers["location"]))

    made = (201, {"id": 7}, "/v1/users/7")
    assert found_by(main, vault_example_com=vault) == [{"path": "/v1/secret"}, made]
    assert (asked[0].host, asked[0].port, asked[0].query) == ("vault.example.com", 8200, {"version": "2"})
    assert (asked[1].json(), asked[1].headers["authorization"]) == ({"name": "a"}, "Bearer x")


async def by_aiohttp(url: str) -> int:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status


async def by_async_httpx(url: str) -> int:
    async with httpx.AsyncClient() as client:
        return (await client.get(url)).status_code


@pytest.mark.parametrize("ask", [by_aiohttp, by_async_httpx])
@pytest.mark.parametrize("url", ["https://hooks.example.com/x", "http://localhost:9000/", "http://10.1.2.3/"])
def test_async_clients_reach_hosts_by_name_address_and_on_the_same_machine(
    ask: Callable[[str], Any], url: str
) -> None:
    async def main(found: list[Any]) -> None:
        found.append(await ask(url))

    answers = {"hooks.example.com": lambda _: 204, "localhost": lambda _: 204, "10.1.2.3": lambda _: 204}
    assert found_by(main, **answers) == [204]


def test_a_pattern_names_many_hosts_and_what_an_answer_may_be() -> None:
    answers = {"a": "text", "b": b"bytes", "c": 404, "d": (503, "later"), "e": [1], "f": None}

    def store(request: HostRequest) -> Any:
        return answers[request.host[0]]

    def main(found: list[Any]) -> None:
        for name in answers:
            got = requests.get(f"https://{name}.store.example.com/", timeout=9)
            found.append((got.status_code, got.content))

    assert found_by(main, **{"*.store.example.com": store}) == [
        (200, b"text"),
        (200, b"bytes"),
        (404, b""),
        (503, b"later"),
        (200, b"[1]"),
        (200, b""),
    ]


def test_an_answer_may_break_the_connection() -> None:
    def broken(_: HostRequest) -> Any:
        raise ConnectionResetError(104, "Connection reset by peer")

    def main(found: list[Any]) -> None:
        try:
            requests.get("http://flaky.example.com/", timeout=9)
        except requests.ConnectionError:
            found.append(round(time.monotonic(), 2))

    assert found_by(main, flaky_example_com=broken) == [1.01]


def test_a_mistake_in_an_answer_fails_the_test() -> None:
    def mistaken(_: HostRequest) -> Any:
        raise KeyError("user")

    _, result = told(lambda _: requests.get("http://a.example.com/", timeout=9), a_example_com=mistaken)
    assert result.violation is not None
    assert "the test's answer for a.example.com failed: KeyError('user')" in result.violation.message


@pytest.mark.parametrize(
    ("url", "host"),
    [("https://slack.example.com/", "slack.example.com"), ("http://127.0.0.1:80/", "localhost")],
)
def test_a_host_that_nobody_answers_for_is_refused_with_what_to_do(url: str, host: str) -> None:
    def main(found: list[Any]) -> None:
        try:
            requests.get(url, timeout=5)
        except requests.ConnectionError as error:
            found.append(f"let the test answer for it, operator.serve({host!r}, function)" in str(error))

    assert found_by(main) == [True]
