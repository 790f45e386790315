"""Whether what a preview showed still holds: the one place where `create --from-preview` asks."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from fathom.cli.ask.explanations import OWN_KINDS, ApiServer
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.cli.steer.preview_text import preview_of
from fathom.kinds.preview_answer import Moved, tried_hash


def check_preview(server: ApiServer, namespace: str, override: dict[str, Any], token: str) -> None:
    """Raises Problem if `token` is of another override, or if what the preview touched has moved since.
    `override` has its namespace."""
    if token.rpartition("-")[2] != tried_hash(override):
        raise Problem(
            f"--from-preview {token} is of another override: preview this one", exit_code=ANSWER_IS_NO
        )
    path = f"{OWN_KINDS}/namespaces/{quote(namespace, safe='')}/overridepreviews/{quote(token, safe='')}"
    status, answer = server.request("GET", path)
    if status == 404:
        raise Problem(
            f"the API server does not have the preview {token} any more: preview again",
            exit_code=ANSWER_IS_NO,
        )
    if status != 200:
        raise Problem(str(answer.get("message") or f"the API server answered with HTTP {status}"))
    preview = preview_of(answer.get("status") or {})
    if preview.refused is not None:
        raise Problem(f"the preview {token} was refused: {preview.refused.message}", exit_code=ANSWER_IS_NO)
    if preview.moved:
        raise Problem(
            f"the preview {token} no longer holds: {'; '.join(map(_told, preview.moved))}: preview again",
            exit_code=ANSWER_IS_NO,
        )


def _told(moved: Moved) -> str:
    """'Deployment shop/web: its generation was 4 and is 5'."""
    place = f"{moved.namespace}/{moved.name}" if moved.namespace else moved.name
    return f"{moved.kind} {place}: {moved.message}"
