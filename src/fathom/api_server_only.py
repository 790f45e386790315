"""Refuse every client but the API server: for the HTTPS endpoints of agents and of other processes."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from fathom.model.accounts import API_SERVER


@web.middleware
async def only_the_api_server(
    request: web.Request, handler: Callable[[web.Request], object]
) -> web.StreamResponse:
    """TLS has verified the client's certificate against the cluster's CA; here its name is checked."""
    certificate = request.get_extra_info("peercert") or {}
    names = [
        value for part in certificate.get("subject", ()) for field, value in part if field == "commonName"
    ]
    if names != [API_SERVER]:
        return web.Response(status=403, text="only the API server may send requests here")
    answer = await handler(request)  # type: ignore[misc]  # aiohttp's handlers are coroutines
    assert isinstance(answer, web.StreamResponse)
    return answer
