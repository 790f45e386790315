"""Objects that the host reads from the API for a pod: ConfigMaps, Secrets, Services, tokens.

Secrets must not be on the tape of a deciding process, so they never go through it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp
import msgspec

from fathom.agent.container_views import containers_of
from fathom.agent.host.account import ROOT_CA, root_ca
from fathom.client.credentials import NoCredentials
from fathom.client.http import CONNECT_S, ServerAddress
from fathom.model.objects import Obj, key_of, lookup, uid_of
from fathom.model.resource import Resource

# Paths are made by Resource alone: a pod may name anything, and a node's rights reach other namespaces.
CONFIG_MAPS, SECRETS, PODS, SERVICES, ACCOUNTS = (
    Resource("", "v1", plural) for plural in ("configmaps", "secrets", "pods", "services", "serviceaccounts")
)

TIMEOUT_S = 10.0
# ConfigMaps, Secrets and tokens of one pod: each is a request of the agent, which has other pods.
OBJECTS_MAX = 500
# The default account of a new namespace is created a moment after it.
ACCOUNT_TRIES, ACCOUNT_S = 4, 0.25


class NotFetched(Exception):
    """The API server did not answer; a later retry may help."""


class Fetched(msgspec.Struct, frozen=True):
    config_maps: dict[str, Obj | None]
    secrets: dict[str, Obj | None]
    services: tuple[Obj, ...]
    tokens: dict[str, str]


def references(pod: Obj) -> tuple[list[str], list[str]]:
    """The ConfigMaps and Secrets that the pod names and that must be fetched, in order, each once."""
    maps: dict[str, None] = {}
    secrets: dict[str, None] = {}
    for container in containers_of(pod):
        for source in container.spec.get("envFrom") or ():
            _note(maps, source.get("configMapRef"), "name")
            _note(secrets, source.get("secretRef"), "name")
        for variable in container.spec.get("env") or ():
            _note(maps, lookup(variable, "valueFrom", "configMapKeyRef"), "name")
            _note(secrets, lookup(variable, "valueFrom", "secretKeyRef"), "name")
    for volume in lookup(pod, "spec", "volumes") or ():
        _note(maps, volume.get("configMap"), "name")
        _note(secrets, volume.get("secret"), "secretName")
        for source in lookup(volume, "projected", "sources") or ():
            _note(maps, source.get("configMap"), "name")
            _note(secrets, source.get("secret"), "name")
    maps.pop(ROOT_CA, None)
    return list(maps), list(secrets)


def _note(names: dict[str, None], reference: Any, field: str) -> None:
    if isinstance(reference, dict) and reference.get(field):
        names[str(reference[field])] = None


class Fetcher:
    def __init__(self, server: ServerAddress) -> None:
        self._server = server
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=server.tls, limit=8, keepalive_timeout=30),
            timeout=aiohttp.ClientTimeout(total=TIMEOUT_S, sock_connect=CONNECT_S),
            headers={"User-Agent": "fathom-agent"},
        )

    async def close(self) -> None:
        await self._session.close()

    async def fetch(self, pod: Obj, audiences: Mapping[str, int], *, services: bool = True) -> Fetched:
        """Raises `NotFetched`."""
        namespace = key_of(pod).namespace
        maps, secrets = references(pod)
        if len(maps) + len(secrets) + len(audiences) > OBJECTS_MAX:
            raise NotFetched(f"the pod names more than {OBJECTS_MAX} ConfigMaps, Secrets and tokens")
        return Fetched(
            {
                ROOT_CA: root_ca(self._server.tls),
                **{name: await self._object(CONFIG_MAPS.path(namespace, name)) for name in maps},
            },
            {name: await self._object(SECRETS.path(namespace, name)) for name in secrets},
            await self._services(namespace) if services else (),
            {audience: await self._token(pod, audience, seconds) for audience, seconds in audiences.items()},
        )

    async def pod(self, pod: Obj) -> Obj:
        """The pod as it is now; if it is gone, as it was."""
        key = key_of(pod)
        current = await self._object(PODS.path(*key))
        return current if current is not None and uid_of(current) == uid_of(pod) else pod

    async def _services(self, namespace: str) -> tuple[Obj, ...]:
        listed = await self._object(SERVICES.path(namespace)) or {}
        kubernetes_service = await self._object(SERVICES.path("default", "kubernetes"))
        return (
            *(listed.get("items") or ()),
            *((kubernetes_service,) if kubernetes_service is not None else ()),
        )

    async def _token(self, pod: Obj, audience: str, seconds: int) -> str:
        key = key_of(pod)
        account = lookup(pod, "spec", "serviceAccountName") or "default"
        bound = {"apiVersion": "v1", "kind": "Pod", "name": key.name, "uid": uid_of(pod)}
        spec: Obj = {"boundObjectRef": bound, "expirationSeconds": seconds}
        if audience:
            spec["audiences"] = [audience]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = ACCOUNTS.path(key.namespace, account, "token")
        answer = await self._ask("POST", path, body)
        for _ in range(ACCOUNT_TRIES):
            if answer is not None:
                break
            await asyncio.sleep(ACCOUNT_S)
            answer = await self._ask("POST", path, body)
        if answer is None:
            raise NotFetched(f'serviceaccount "{account}" not found')
        return str(lookup(answer, "status", "token") or "")

    async def _object(self, path: str) -> Obj | None:
        return await self._ask("GET", path, None)

    async def _ask(self, method: str, path: str, body: Obj | None) -> Obj | None:
        server = self._server
        try:
            if server.renewing is not None:
                await server.renewing.renew()
            async with self._session.request(
                method, server.url + path, json=body, headers=server.credentials(),
                server_hostname=server.server_name or None, allow_redirects=False,
            ) as response:  # fmt: skip
                answer: Obj = await response.json(content_type=None)
                if response.status == 404:
                    return None
                if response.status >= 300:
                    raise NotFetched(str(answer.get("message") or f"{path}: HTTP {response.status}"))
                return answer
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, NoCredentials) as error:
            raise NotFetched(f"{path}: {type(error).__name__} {error}") from None
