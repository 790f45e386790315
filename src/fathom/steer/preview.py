"""The place where `fathom runbook plan` asks for a preview of a run in a fork of the cluster."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.client.api import Api
from fathom.model.objects import Obj

NOT_AVAILABLE = "no preview: the API server does not run runbooks in a fork"


async def preview_lines(api: Api, namespace: str, objects: Sequence[Obj]) -> list[str]:
    """What a fork of the cluster would do with the objects that the steps create, as lines for people."""
    return [NOT_AVAILABLE]
