"""The protocol by which the API server answers questions: `ask/` implements it, the wiring injects it.

Kinds whose requests only ask (`Kind.virtual`, group fathom.dev) are served by it.
"""

from __future__ import annotations

from typing import Protocol

from fathom.api.core import Call
from fathom.api.request import Response
from fathom.model.errors import not_supported


class Views(Protocol):
    async def serve(self, call: Call) -> Response:
        """Raises ApiError."""
        ...


class NoViews:
    """For simulations, where no process can be asked."""

    async def serve(self, call: Call) -> Response:
        raise not_supported(call.kind.plural)
