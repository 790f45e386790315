"""Fetch RepairProposals and write decisions about them, for `fathom repair`."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fathom.cli.problem import Problem
from fathom.client.api import Api, own_resource
from fathom.client.kubeconfig import BadKubeconfig
from fathom.client.once import api_of
from fathom.client.outcomes import Committed, Rejected
from fathom.client.servers import find_server
from fathom.kinds import repair_proposal
from fathom.kinds.repair_proposal import OVER
from fathom.model.errors import ApiError
from fathom.model.objects import Obj, lookup, uid_of
from fathom.seams.outside import live

PROPOSALS = own_resource(repair_proposal.DEFINITION)


async def fetch_proposals(kubeconfig: Path | None, namespace: str, *, every: bool) -> list[Obj]:
    """Proposals of a namespace, or of all if none is given. Raises Problem."""
    async with _api(kubeconfig) as api:
        page = await api.list_page(PROPOSALS, namespace)
        proposals = list(page.items)
        while page.token:
            page = await api.list_page(PROPOSALS, namespace, token=page.token)
            proposals += page.items
    return [proposal for proposal in proposals if every or lookup(proposal, "status", "phase") not in OVER]


async def decide(kubeconfig: Path | None, namespace: str, name: str, *, approved: bool) -> Obj:
    """Write the decision, never into a later proposal of the same name; the new object. Raises Problem."""
    async with _api(kubeconfig) as api:
        proposal = await api.get(PROPOSALS, namespace, name)
        if proposal is None:
            raise Problem(
                f"there is no RepairProposal {namespace}/{name}; list them with `fathom repair list`"
            )
        decision = {"metadata": {"uid": uid_of(proposal)}, "status": {"approved": approved}}
        outcome = await api.patch(PROPOSALS, namespace, name, decision, subresource="approval")
    if isinstance(outcome, Committed):
        return outcome.obj
    if isinstance(outcome, Rejected):
        raise Problem(outcome.message)
    raise Problem(
        f"the outcome is unknown: check with `fathom repair list` whether {namespace}/{name} is decided"
    )


@asynccontextmanager
async def _api(kubeconfig: Path | None) -> AsyncIterator[Api]:
    try:
        async with api_of(find_server(kubeconfig, clock=live().clock, environ=os.environ)) as api:
            yield api
    except (BadKubeconfig, ApiError) as error:
        raise Problem(str(error)) from error
