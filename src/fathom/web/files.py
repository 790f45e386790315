"""The page's files, as they are on disk. They contain nothing of the cluster, so everybody may read them."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import msgspec

from fathom.api.request import Request, Response
from fathom.model.errors import method_not_allowed, no_such_path

STATIC = Path(__file__).parent / "static"
PREFIX = "/ui/"
INDEX = "index.html"
TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
# No dot but the one before the suffix: no path leads out of the directory.
NAME = re.compile(r"(?:[a-z0-9_]+/)?[a-z0-9_]+\.(html|js|css|svg)")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
)


class _File(msgspec.Struct, frozen=True):
    stamp: tuple[int, int]  # Time of the last change, and size.
    body: bytes
    tag: str


class StaticFiles:
    def __init__(self, directory: Path = STATIC) -> None:
        self._directory = directory
        self._known: dict[str, _File] = {}  # Bounded by the files that exist.

    def serve(self, request: Request) -> Response:
        """Raises 404, 405."""
        if request.method not in {"GET", "HEAD"}:
            raise method_not_allowed("GET", "HEAD")
        name = request.path.removeprefix(PREFIX) or INDEX
        matched = NAME.fullmatch(name)
        file = self._read(name) if matched is not None else None
        if matched is None or file is None:
            raise no_such_path()
        headers = (("etag", file.tag), ("cache-control", "no-cache"))
        fresh = file.tag in request.headers.get("if-none-match", "")
        return Response(304 if fresh else 200, b"" if fresh else file.body, TYPES[matched[1]], headers)

    def _read(self, name: str) -> _File | None:
        """Read again when the file has changed: a clone is edited while it runs."""
        path = self._directory / name
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            known = self._known.get(name)
            if known is None or known.stamp != stamp:
                body = path.read_bytes()
                known = _File(stamp, body, f'"{hashlib.sha256(body).hexdigest()[:20]}"')
                self._known[name] = known
        except OSError:
            return None
        return known
