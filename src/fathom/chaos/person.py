"""The person beside the cluster: applies documents, changes and deletes them. No fault touches their
requests, but the server may be down: then they try again."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import aiohttp
import msgspec

from fathom.chaos.server import ApiServer
from fathom.model.objects import Obj, metadata

TRY_S = 0.1
TRIES_S = 20.0
TOUCHED = "chaos.fathom.dev/touched"


class Refused(Exception):
    """The API server refused a document; the message says which, and why."""


class Person:
    def __init__(self, server: ApiServer, authority: ssl.SSLContext, token: str) -> None:
        self._server = server
        headers = {"authorization": f"Bearer {token}", "user-agent": "fathom-chaos"}
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=authority), headers=headers, timeout=aiohttp.ClientTimeout(10)
        )
        self._collections: dict[tuple[str, str], str] = {}

    async def close(self) -> None:
        await self._session.close()

    async def apply(self, obj: Obj) -> None:
        """Raises Refused."""
        path = await self._path(obj)
        name = str(metadata(obj)["name"])
        status, answer = await self._ask("POST", path, obj)
        if status == 409:
            status, answer = await self._ask("PATCH", f"{path}/{name}", obj)
        if status >= 300:
            raise Refused(f"{obj['kind']} {name}: {answer.get('message') or status}")

    async def touch(self, obj: Obj, number: int) -> None:
        path = await self._path(obj)
        body = {"metadata": {"annotations": {TOUCHED: str(number)}}}
        await self._ask("PATCH", f"{path}/{metadata(obj)['name']}", body)

    async def delete(self, obj: Obj) -> None:
        await self._ask("DELETE", f"{await self._path(obj)}/{metadata(obj)['name']}")

    async def _path(self, obj: Obj) -> str:
        """Of the collection. A definition is served a moment after it was created. Raises Refused."""
        version, kind = str(obj["apiVersion"]), str(obj["kind"])
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        deadline_s = asyncio.get_running_loop().time() + TRIES_S / 4
        while True:
            _, answer = await self._ask("GET", root)
            for resource in answer.get("resources") or ():
                if resource["kind"] == kind and "/" not in resource["name"]:
                    space = str(metadata(obj).get("namespace") or "default")
                    inside = f"/namespaces/{space}" if resource["namespaced"] else ""
                    return f"{root}{inside}/{resource['name']}"
            if asyncio.get_running_loop().time() > deadline_s:
                raise Refused(
                    f"{version} {kind} is not served: give its CustomResourceDefinition by --manifest"
                )
            await asyncio.sleep(TRY_S)

    async def _ask(self, method: str, path: str, body: Obj | None = None) -> tuple[int, dict[str, Any]]:
        """Tries again while the server is down. Raises Refused."""
        media = "application/merge-patch+json" if method == "PATCH" else "application/json"
        deadline_s = asyncio.get_running_loop().time() + TRIES_S
        while True:
            try:
                async with self._session.request(
                    method,
                    f"{self._server.url}{path}",
                    data=None if body is None else msgspec.json.encode(body),
                    headers={} if body is None else {"content-type": media},
                ) as response:
                    return response.status, _document(await response.read())
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                if asyncio.get_running_loop().time() > deadline_s:
                    raise Refused(f"the API server does not answer: {error}") from error
                await asyncio.sleep(TRY_S)


def _document(raw: bytes) -> dict[str, Any]:
    try:
        answer = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return {}
    return answer if isinstance(answer, dict) else {}
