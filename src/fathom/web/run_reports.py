"""The report of a runbook's run, as `fathom runbook report` writes it. The run, and what the audit log has of
its writes, are read by requests of the session's own user."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec

from fathom.api.request import Request, Response
from fathom.api.web_page import Send
from fathom.kinds.runbook_run import RunbookRun, RunbookRunStatus
from fathom.kinds.shape import ObjectRef, read
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.body import encode_json
from fathom.model.errors import bad_request, no_such_path
from fathom.model.objects import lookup
from fathom.steer.report import report_text
from fathom.web.merged_watches import NOT_PASSED_ON

REPORTS = "/ui/runbook-reports/"
OWN_KINDS = "/apis/fathom.dev/v1alpha1"


async def report(request: Request, send: Send) -> Response:
    """Raises 400, 404. A refusal of the API server is passed on."""
    namespace, slash, name = request.path.removeprefix(REPORTS).partition("/")
    if not slash or not namespace or not name or "/" in name:
        raise no_such_path()
    path = f"{OWN_KINDS}/namespaces/{quote(namespace, safe='')}/runbookruns/{quote(name, safe='')}"
    answer = await send(_request(request, "GET", path))
    if not isinstance(answer, Response) or answer.status != 200:
        assert isinstance(answer, Response)
        return answer
    try:
        run = read(RunbookRun, msgspec.json.decode(answer.body))
    except ValueError as error:
        raise bad_request(f"the run cannot be read: {error}") from None
    text = report_text(run, await _confirmed(request, run.status, send))
    return Response(200, text.encode(), "text/plain; charset=utf-8", (("cache-control", "no-store"),))


async def _confirmed(request: Request, status: RunbookRunStatus, send: Send) -> frozenset[str]:
    """The audit ids of the run's writes that the audit log has. What cannot be asked is not confirmed."""
    writes = [write for record in status.steps for write in record.writes if write.audit_id]
    audited: set[str] = set()
    for ref in dict.fromkeys(write.object for write in writes if write.object is not None):
        audited |= await _requests_about(request, ref, send)
    return frozenset(write.audit_id for write in writes if write.audit_id in audited)


async def _requests_about(request: Request, ref: ObjectRef, send: Send) -> set[str]:
    subject = {"kind": ref.kind, "name": ref.name, **({"uid": ref.uid} if ref.uid else {})}
    question = {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "Timeline",
        "spec": {"subject": subject, "fold": False},
    }
    path = f"{OWN_KINDS}/namespaces/{quote(ref.namespace or SYSTEM_NAMESPACE, safe='')}/timelines"
    answer = await send(_request(request, "POST", path, question))
    if not isinstance(answer, Response) or answer.status not in {200, 201}:
        return set()
    entries = lookup(msgspec.json.decode(answer.body), "status", "entries") or ()
    return {str(lookup(entry, "ids", "request") or "") for entry in entries}


def _request(request: Request, method: str, path: str, body: Any = None) -> Request:
    kept = {name: value for name, value in request.headers.items() if name not in NOT_PASSED_ON}
    media = {} if body is None else {"content-type": "application/json"}
    return Request(
        method=method,
        path=path,
        query={},
        headers={**kept, **media, "accept": "application/json"},
        body=b"" if body is None else encode_json(body),
        remote=request.remote,
    )
