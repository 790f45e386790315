"""Which requests to the page belong in the audit log, and what they are about. Pure."""

from __future__ import annotations

import msgspec

from fathom.api.request import Request
from fathom.api.web_page import PageWrite
from fathom.model.user import User
from fathom.web.recording_paths import EXPORTS
from fathom.web.recordings import ExportAsked

SESSIONS = "/ui/sessions"


def write_in(request: Request, user: User) -> PageWrite | None:
    """None: the request changes nothing that is not the sender's own."""
    path, method = request.path, request.method
    if method == "POST" and path == EXPORTS:
        asked = _asked(request)
        name, namespace = (asked.around, asked.namespace) if asked else ("", "")
        return PageWrite(user, "create", _resource(EXPORTS), name=name, namespace=namespace)
    if method == "POST" and path.startswith(f"{EXPORTS}/"):
        name, _, action = path.removeprefix(f"{EXPORTS}/").partition("/")
        return PageWrite(user, "create", _resource(EXPORTS), name=name, subresource=action)
    if method == "DELETE" and (path == SESSIONS or path.startswith(f"{SESSIONS}/")):
        return PageWrite(user, "delete", _resource(SESSIONS), name=path.removeprefix(SESSIONS).strip("/"))
    return None


def _resource(path: str) -> str:
    """'ui/sessions': nobody takes it for a kind of object."""
    return path.removeprefix("/")


def _asked(request: Request) -> ExportAsked | None:
    try:
        return msgspec.json.decode(request.body or b"{}", type=ExportAsked)
    except msgspec.DecodeError:
        return None
