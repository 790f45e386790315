"""A client in the server's own process: same requests, same authorization, same audit, no socket."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol
from urllib.parse import parse_qs

from fathom.model.body import decode_json, encode_json
from fathom.model.errors import ApiError
from fathom.model.objects import Obj


class Answered(Protocol):
    status: int
    body: bytes


Send = Callable[[str, str, dict[str, list[str]], dict[str, str], bytes], Awaitable[Answered]]


class LocalClient:
    """One method for every request: `call("DELETE", "/api/v1/...", query="propagationPolicy=Background")`."""

    def __init__(self, send: Send, *, token: str, name: str) -> None:
        self.send = send  # A simulated world wraps it, to see what each commit was for.
        self._headers = {"authorization": f"Bearer {token}", "user-agent": name}

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: str = "",
        body: Obj | list[Obj] | None = None,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> Obj:
        """The answer as an object. Any error answer is raised as an ApiError."""
        all_headers = {**self._headers, "content-type": content_type, **(headers or {})}
        raw = b"" if body is None else encode_json(body)
        answer = await self.send(method, path, parse_qs(query, keep_blank_values=True), all_headers, raw)
        obj: Obj = decode_json(answer.body)
        if answer.status >= 400:
            raise ApiError(
                answer.status, obj.get("reason", ""), obj.get("message", ""), details=obj.get("details")
            )
        return obj
