"""Check that a process can hold its lease: its namespace exists, and its account may write under it."""

from __future__ import annotations

from fathom.cli.problem import Problem
from fathom.client.api import Resource
from fathom.client.http import ServerAddress
from fathom.client.once import api_of
from fathom.client.outcomes import Committed
from fathom.model.accounts import is_lease_for, lease_of
from fathom.model.errors import ApiError
from fathom.model.objects import Key, lookup
from fathom.model.resources import NAMESPACES

REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", namespaced=False)


async def check_namespace(server: ServerAddress, lease: str) -> None:
    """Raise Problem if the lease's namespace does not exist: the process would stand by for ever. A server
    that does not answer now, or does not let us look, may have it."""
    namespace = lease.partition("/")[0]
    if not namespace:
        return
    async with api_of(server) as api:
        try:
            exists = await api.get(NAMESPACES, "", namespace) is not None
        except ApiError:
            return
    if not exists:
        raise Problem(
            f"{server.url} has no namespace {namespace}, where the lease {lease} belongs: install it with"
            f" `fathom attach`, type `kubectl create namespace {namespace}`, or choose another lease with"
            " --lease NAMESPACE/NAME"
        )


async def check_lease(server: ServerAddress, lease: str) -> None:
    """Raise Problem if the API server would refuse every write: fail at the start, not in every request."""
    account = await _account(server)
    wanted = lease_of(account)
    if wanted is None or (lease and is_lease_for(wanted, Key(*lease.split("/")))):
        return
    name = f"{wanted.namespace}/{wanted.name}"
    flag = f"--lease {lease!r}" if lease else "--lease ''"
    raise Problem(
        f"{flag}: the API server refuses writes of {account} without the lease {name}: leave out --lease,"
        f" use {name} or {name}-SOMETHING, or use the kubeconfig of another account"
    )


async def _account(server: ServerAddress) -> str:
    """The user name of the kubeconfig; '' if the API server cannot tell."""
    async with api_of(server) as api:
        outcome = await api.create(REVIEWS, "", {"metadata": {}})
    if not isinstance(outcome, Committed):
        return ""
    return str(lookup(outcome.obj, "status", "userInfo", "username") or "")
