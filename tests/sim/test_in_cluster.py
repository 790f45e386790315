"""A program finds its cluster as in a Pod, too: variables, the files of its service account, and https."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import kubernetes
import lightkube
import pytest
import requests
from lightkube.core.exceptions import ApiError
from lightkube.resources.core_v1 import Namespace
from tests.sim.test_foreign_programs import results_of, versions_told_by

from fathom.model.objects import Obj

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def address() -> str:
    return f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}/version"


def test_the_files_of_the_service_account_are_there_in_a_program_alone() -> None:
    def main(found: list[Any]) -> None:
        found += [(ACCOUNT / "namespace").read_text(), os.path.isfile(ACCOUNT / "token"), ACCOUNT.is_dir()]
        with open(f"{ACCOUNT}/ca.crt", encoding="utf-8") as file:
            found.append(file.readline().strip())
        found.append(os.environ["KUBERNETES_PORT"])

    expected = ["default", True, True, "-----BEGIN CERTIFICATE-----", "tcp://10.96.0.1:443"]
    assert results_of(main) == expected
    assert not ACCOUNT.exists()
    assert "KUBERNETES_PORT" not in os.environ


def test_a_kubeconfig_of_the_tests_own_user_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "elsewhere/production")
    monkeypatch.setattr(
        kubernetes.config.kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", "elsewhere/production"
    )  # As where the client was imported with that variable.

    def main(found: list[Any]) -> None:
        found.append(os.environ.get("KUBECONFIG"))
        kubernetes.config.load_kube_config()
        found.append(kubernetes.client.VersionApi().get_code().major)

    assert results_of(main) == [None, "1"]


def test_a_program_sees_other_files_as_they_are(tmp_path: Path) -> None:
    def main(found: list[Any]) -> None:
        (tmp_path / "state").write_text("kept")
        found += [(tmp_path / "state").read_text(), os.path.exists(tmp_path / "absent")]

    assert results_of(main) == ["kept", False]


def by_the_official_client() -> Obj:
    kubernetes.config.load_incluster_config()
    return {"major": kubernetes.client.VersionApi().get_code().major}


def by_requests() -> Obj:
    return requests.get(address(), verify=str(ACCOUNT / "ca.crt"), timeout=9).json()  # type: ignore[no-any-return]


def by_httpx() -> Obj:
    context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    return httpx.get("https://kubernetes.default.svc/version", verify=context).json()  # type: ignore[no-any-return]


async def by_async_httpx() -> Obj:
    context = ssl.create_default_context(cadata=(ACCOUNT / "ca.crt").read_text())
    async with httpx.AsyncClient(verify=context) as client:
        return (await client.get(address())).json()  # type: ignore[no-any-return]


async def by_aiohttp() -> Obj:
    context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    async with aiohttp.ClientSession() as session, session.get(address(), ssl=context) as answer:
        return await answer.json()  # type: ignore[no-any-return]


async def by_streams() -> Obj:
    reader, writer = await asyncio.open_connection("kubernetes.default", 443, ssl=True)
    writer.write(b"GET /version HTTP/1.1\r\nHost: kubernetes\r\nConnection: close\r\n\r\n")
    return {"major": (await reader.read()).decode().partition('"major":"')[2][:1]}


def by_a_socket() -> Obj:
    plain = socket.create_connection(("kubernetes", 443))
    with ssl.create_default_context().wrap_socket(plain, server_hostname="kubernetes") as secure:
        secure.sendall(b"GET /version HTTP/1.1\r\nHost: kubernetes\r\nConnection: close\r\n\r\n")
        assert ("DNS", "kubernetes") in secure.getpeercert()["subjectAltName"]  # type: ignore[index]
        answer = b""
        while data := secure.recv(1000):
            answer += data
    return {"major": answer.decode().partition('"major":"')[2][:1]}


@pytest.mark.parametrize(
    "ask",
    [by_the_official_client, by_requests, by_httpx, by_async_httpx, by_aiohttp, by_streams, by_a_socket],
)
def test_every_client_reaches_the_api_server_by_https(ask: Callable[[], Any]) -> None:
    assert versions_told_by(ask) == ["1"]


def test_lightkube_finds_the_service_account() -> None:
    async def main(found: list[Any]) -> None:
        client = lightkube.AsyncClient(lightkube.KubeConfig.from_service_account())
        found += [item.metadata.name async for item in client.list(Namespace)][:1]
        try:
            await client.get(Namespace, "absent")
        except ApiError as error:
            found.append(error.status.code)

    assert results_of(main) == ["default", 404]
