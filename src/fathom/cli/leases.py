"""Check that a process's account may write under the lease given with --lease."""

from __future__ import annotations

from fathom.cli.problem import Problem
from fathom.client.api import Resource
from fathom.client.http import ServerAddress
from fathom.client.once import api_of
from fathom.client.outcomes import Committed
from fathom.model.accounts import is_lease_for, lease_of
from fathom.model.objects import Key, lookup

REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", namespaced=False)


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
