"""What a command says of an API server that cannot be reached: which one, why, and what to check."""

from __future__ import annotations

import os

WHAT_TO_DO = "check that this API server runs, and that the kubeconfig names the right one"


def no_answer_text(url: str, error: Exception) -> str:
    return f"{url} does not answer ({_why(error)}): {WHAT_TO_DO}"


def _why(error: Exception) -> str:
    """'Connection refused': aiohttp wraps the error of the socket, and asyncio words it in its own way."""
    inner = getattr(error, "os_error", error)
    if isinstance(inner, ConnectionError) and inner.errno:
        return os.strerror(inner.errno)
    return (inner.strerror if isinstance(inner, OSError) else "") or str(inner) or type(inner).__name__
