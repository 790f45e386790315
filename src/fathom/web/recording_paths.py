"""The page's paths to the recordings. Whoever calls has checked who may.

GET  /ui/record                     tapes with their runs, gaps, kept windows, exports
POST /ui/record/exports             {"around": "deployment/web", "namespace": …, "window": "15m"}: make one
GET  /ui/record/exports/ID          the file
POST /ui/record/exports/ID/replay   begin to replay it; its result is in /ui/record
"""

from __future__ import annotations

import msgspec

from fathom.api.request import Answer, Request, Response, StreamResponse
from fathom.model.body import encode_json
from fathom.model.errors import bad_request, method_not_allowed, no_such_path
from fathom.web.recordings import ExportAsked, Recordings

RECORD = "/ui/record"
EXPORTS = f"{RECORD}/exports"


class RecordingPaths:
    def __init__(self, recordings: Recordings) -> None:
        self._recordings = recordings

    async def serve(self, request: Request) -> Answer:
        """Raises 400, 404, 405, 429."""
        path, method = request.path, request.method
        if path == RECORD:
            _need(method, "GET")
            return _json(await self._recordings.state())
        if path == EXPORTS:
            _need(method, "POST")
            return _json(await self._recordings.export(_asked(request)))
        export_id, slash, action = path.removeprefix(f"{EXPORTS}/").partition("/")
        if not path.startswith(f"{EXPORTS}/") or action != ("replay" if slash else ""):
            raise no_such_path()
        if slash:
            _need(method, "POST")
            return _json(self._recordings.start_replay(export_id))
        _need(method, "GET")
        return self._file(export_id)

    def _file(self, export_id: str) -> StreamResponse:
        source = self._recordings.open(export_id)
        name = self._recordings.find(export_id).file
        headers = (("content-disposition", f'attachment; filename="{name}"'), ("cache-control", "no-store"))
        return StreamResponse(source, content_type="application/zip", headers=headers)


def _asked(request: Request) -> ExportAsked:
    """Raises 400."""
    try:
        return msgspec.json.decode(request.body or b"{}", type=ExportAsked)
    except msgspec.DecodeError as error:
        raise bad_request(f"the body must name the object: {error}") from None


def _need(method: str, allowed: str) -> None:
    if method != allowed:
        raise method_not_allowed(allowed)


def _json(answer: object) -> Response:
    return Response(200, encode_json(answer), headers=(("cache-control", "no-store"),))
