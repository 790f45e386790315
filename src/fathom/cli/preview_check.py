"""Whether what a preview showed still holds: the one place where `create --from-preview` asks."""

from __future__ import annotations

from typing import Any

from fathom.cli.explanations import ApiServer
from fathom.cli.problem import Problem


def check_preview(server: ApiServer, namespace: str, override: dict[str, Any], token: str) -> None:
    """Raises Problem if `token` is of another override, or if what the preview touched has moved since."""
    raise Problem(f"--from-preview {token}: this version of fathom has no previews")
