"""The range that Services get their addresses from: an operator's choice."""

from __future__ import annotations

import subprocess
import sys
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
from tests.clients.running import Server, running

pytestmark = pytest.mark.live

SERVICES = "/api/v1/namespaces/default/services"
FATHOM = [sys.executable, "-m", "fathom.cli"]


def service(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


def address(server: Server, name: str) -> str:
    return str(server.request("GET", f"{SERVICES}/{name}")["spec"]["clusterIP"])


def refusal(server: Server, body: dict[str, Any]) -> str:
    with pytest.raises(AssertionError) as refused:
        server.request("POST", SERVICES, body)
    return str(refused.value)


def test_services_get_addresses_of_the_range_that_was_given(tmp_path: Path) -> None:
    chosen = "127.80.0.0/24"
    with running(tmp_path, "--service-cidr", chosen) as server:
        for number in range(5):
            server.request("POST", SERVICES, service(f"web-{number}"))
        names = ("kubernetes", *(f"web-{number}" for number in range(5)))
        found = [ip_address(address(server, name)) for name in names]
        assert all(one in ip_network(chosen) for one in found)
        assert len(set(found)) == 6
        told = refusal(server, service("far", clusterIP="127.96.3.3"))
        assert f"The range of valid IPs is {chosen}" in told
        free = next(host for host in ip_network(chosen).hosts() if host not in found)
        server.request("POST", SERVICES, service("near", clusterIP=str(free)))


def test_services_keep_their_addresses_when_the_range_changes(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        server.request("POST", SERVICES, service("old", clusterIP="127.97.1.1"))
        own = address(server, "kubernetes")
    with running(tmp_path, "--service-cidr", "127.80.0.0/16") as server:
        assert (address(server, "old"), address(server, "kubernetes")) == ("127.97.1.1", own)
        server.patch(
            f"{SERVICES}/old", {"metadata": {"labels": {"a": "b"}}, "spec": {"ports": [{"port": 81}]}}
        )
        assert address(server, "old") == "127.97.1.1"
        server.request("POST", SERVICES, service("new"))
        assert address(server, "new").startswith("127.80.")
        server.request("DELETE", f"{SERVICES}/old")
    with running(tmp_path) as server:  # What it gave back is free again.
        server.request("POST", SERVICES, service("again", clusterIP="127.97.1.1"))
        assert "already allocated" in refusal(server, service("twice", clusterIP="127.97.1.1"))


def test_a_small_range_is_used_up_to_its_end_and_then_says_so(tmp_path: Path) -> None:
    with running(tmp_path, "--service-cidr", "127.80.0.0/28") as server:
        for number in range(20):
            try:
                server.request("POST", SERVICES, service(f"web-{number}"))
            except AssertionError as full:
                assert "range 127.80.0.0/28 is full" in str(full)  # noqa: PT017
                break
        else:
            pytest.fail("sixteen addresses are enough for twenty services")
        assert number >= 7


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("nonsense", "--service-cidr"),
        ("127.80.0.1/24", "host bits"),
        ("127.80.0.0/30", "/28"),
        ("0.0.0.0/0", "/8"),
        ("fd00::/108", "IPv4"),
        ("", "--service-cidr"),
        ("127.128.0.0/16", "pods"),
        ("127.0.0.0/8", "pods"),
    ],
)
@pytest.mark.parametrize(
    "command", [("serve", "api"), pytest.param(("up", "--nodes", "0"), marks=pytest.mark.full)]
)
def test_a_range_that_cannot_be_is_refused_before_anything_is_made(
    tmp_path: Path, command: tuple[str, ...], given: str, words: str
) -> None:
    data = tmp_path / "data"
    done = subprocess.run(
        [*FATHOM, *command, "--data", str(data), "--port", "0", "--service-cidr", given],
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done
    assert words in done.stderr
    assert not data.exists()
