"""The page as the API server sees it, a WebPage: files, login, links, sessions; whose a request is.

GET    /ui/…             a file
POST   /ui/session       {"token": …, "allowChanges": …} or {"code": …}: log in
GET    /ui/session       who I am, and until when
DELETE /ui/session       log out
POST   /ui/links         {"allowChanges": …}: a one-time code for whoever asks, by kubeconfig
GET    /ui/sessions      my sessions; all of them for whoever may get this path
DELETE /ui/sessions[/ID] end one, or all
POST   /ui/watch         several watches in one answer
GET    /ui/override-table, /ui/runbooks, /ui/runbook-reports/NS/RUN    `documents`, `run_reports`
GET    /ui/record/…      recordings, for whoever may get this path: `recording_paths`
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TypeVar

import msgspec

from fathom import __version__
from fathom.api import response_forms
from fathom.api.auth.authenticate import Authenticator
from fathom.api.auth.authorize import Authorizer
from fathom.api.auth.credentials import Credential
from fathom.api.auth.impersonate import IMPERSONATE
from fathom.api.core import Call
from fathom.api.request import Answer, Request, RequestTarget, Response, StreamResponse
from fathom.api.target import CONNECTIONS
from fathom.api.web_page import PageWrite, Send
from fathom.kinds.binding_batch import BATCHES
from fathom.model.body import encode_json
from fathom.model.errors import (
    ApiError,
    bad_request,
    forbidden,
    method_not_allowed,
    no_such_path,
    not_found,
    too_large,
    unauthorized,
)
from fathom.model.times import timestamp
from fathom.model.user import User
from fathom.web.documents import DOCUMENTS
from fathom.web.files import HEADERS, PREFIX, StaticFiles
from fathom.web.merged_watches import merged
from fathom.web.origin import (
    KEY_HEADER,
    READING,
    cookie_header,
    cookie_of,
    host_refusal,
    is_cross_site_write,
    origin_refusal,
)
from fathom.web.page_writes import SESSIONS, write_in
from fathom.web.recording_paths import EXPORTS, RECORD, RecordingPaths
from fathom.web.run_reports import REPORTS, report
from fathom.web.session_stream import SessionStream
from fathom.web.sessions import CODE_S, SESSION_S, Session, Sessions

BODY_BYTES_MAX = 16 << 10
READS = frozenset({"get", "list", "watch"})
# Subresources whose dry run answers with nothing but an object; that of a token would be a token.
TRIED_SUBRESOURCES = frozenset({"", "status", "scale", "approval", "eviction"})
# A connection would outlive the session, and a page has no terminal.
NO_CONNECTIONS = "a session of the page runs no commands in pods: use kubectl exec or fathom exec"
READ_ONLY = "this session is read-only: log in again with changes allowed"
Body = TypeVar("Body")
NO_SESSION = "the session has ended or is not known: log in again"


class Login(msgspec.Struct, frozen=True, rename="camel"):
    token: str = ""
    code: str = ""
    allow_changes: bool = False


class LinkAsked(msgspec.Struct, frozen=True, rename="camel"):
    allow_changes: bool = False


class ShownSession(msgspec.Struct, frozen=True, rename="camel"):
    """A session as its owner and administrators see it, without its secrets."""

    id: str  # By which `fathom page sessions --end ID` ends it.
    user: str  # Who logged in.
    groups: tuple[str, ...]  # Of the user.
    allow_changes: bool  # Whether it may change what the user may change.
    began: str  # When the user logged in.
    used: str  # When it was last used.
    ends: str  # When it ends at the latest.
    browser: str  # What the browser says of itself.
    remote: str  # The address that it logged in from.
    version: str  # Of fathom, which serves the page.


class Page:
    def __init__(
        self,
        sessions: Sessions,
        authenticator: Authenticator,
        authorizer: Authorizer,
        *,
        names: Collection[str],
        files: StaticFiles | None = None,
        recordings: RecordingPaths | None = None,
    ) -> None:
        """`names`: of this server, in lower case, as browsers may write them in addresses. `recordings`:
        None where no directory has any."""
        self.sessions = sessions
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._names = frozenset(names)
        self._files = files or StaticFiles()
        self._recordings = recordings

    # What the API server asks.

    def serves(self, request: Request) -> bool:
        path = request.path
        if path == "/":
            return "text/html" in request.headers.get("accept", "")
        return path.startswith(PREFIX) or path == "/ui"

    def check_body(self, request: Request, body_bytes: int) -> bool:
        if self.serves(request):
            if body_bytes > BODY_BYTES_MAX:
                raise too_large(BODY_BYTES_MAX)
            return True
        return self.session_of(request) is not None

    def session_of(self, request: Request) -> RequestSession | None:
        headers = request.headers
        _require_same_site(request)
        cookie, key = cookie_of(headers), headers.get(KEY_HEADER)
        if cookie is None and key is None:
            return None
        return RequestSession(self.sessions, self._session(request, cookie, key))

    def _session(self, request: Request, cookie: str | None, key: str | None) -> Session:
        """Raises 401, 403."""
        refusal = host_refusal(request.headers, self._names) or origin_refusal(request.headers)
        if refusal is not None:
            raise refusal
        if any(name.startswith(IMPERSONATE) for name in request.headers):
            raise forbidden("a session of the page acts as nobody but its own user")
        if cookie is None or key is None:
            raise forbidden(f"a session needs both its cookie and its key ({KEY_HEADER}): log in again")
        session = self.sessions.find(cookie=cookie, key=key)
        if session is None:
            raise unauthorized(NO_SESSION)
        return session

    def write_of(self, request: Request) -> PageWrite | None:
        if request.method in READING or not request.path.startswith((EXPORTS, SESSIONS)):
            return None
        try:
            return write_in(request, self._sender(request))
        except ApiError:  # Whoever answers the request says why.
            return None

    def _sender(self, request: Request) -> User:
        """Of a session, or with a credential. Raises 401, 403."""
        session = self.session_of(request)
        return session.user if session is not None else self._authenticator.credential_of(request).user

    def sweep(self) -> None:
        self.sessions.sweep()

    async def serve(self, request: Request, send: Send) -> Answer:
        try:
            answer = await self._served(request, send)
        except ApiError as error:
            answer = response_forms.failure(error)
        answer.headers = (*answer.headers, *HEADERS)
        return answer

    # Serving.

    async def _served(self, request: Request, send: Send) -> Answer:
        refusal = host_refusal(request.headers, self._names)
        if refusal is not None:
            raise refusal
        path, method = request.path, request.method
        if path in {"/", "/ui"}:
            return Response(302, b"", "text/plain; charset=utf-8", (("location", PREFIX),))
        if path == "/ui/watch":
            _need(method, "POST")
            self._own_session(request)
            return await merged(request, send)
        if path == "/ui/session":
            return self._session_path(request)
        if path == "/ui/links":
            _need(method, "POST")
            return self._link(request)
        if path == SESSIONS or path.startswith(f"{SESSIONS}/"):
            return self._sessions_path(request)
        if path in {*DOCUMENTS, RECORD} or path.startswith((REPORTS, f"{RECORD}/")):
            return await self._of_session(request, send)
        return self._files.serve(request)

    async def _of_session(self, request: Request, send: Send) -> Answer:
        """What is made for the page, and for nobody without a session."""
        session, path = self._own_session(request), request.path
        if path in DOCUMENTS:
            _need(request.method, "GET")
            return _json(await asyncio.to_thread(DOCUMENTS[path]))
        if path.startswith(REPORTS):
            _need(request.method, "GET")
            return await report(request, send)
        if self._recordings is None:
            raise no_such_path()
        self._require(session, request)
        return await self._recordings.serve(request)

    def _require(self, session: Session, request: Request) -> None:
        """Raises 403. RBAC with nonResourceURLs: /ui/record and /ui/record/*."""
        user, verb = session.credential.user, request.method.lower()
        if not self._authorizer.authorize(user, RequestTarget(verb=verb, path=request.path)).allowed:
            rule = f"a role with the verb {verb} on the nonResourceURL {request.path[:200]} is needed"
            raise forbidden(f"user {user.name} may not {verb} {request.path[:200]}: {rule}")
        if request.method not in READING and not session.allow_changes:
            raise forbidden(READ_ONLY)

    def _own_session(self, request: Request) -> Session:
        """Raises 401, 403."""
        return self._session(request, cookie_of(request.headers), request.headers.get(KEY_HEADER))

    def _session_path(self, request: Request) -> Response:
        _need(request.method, "GET", "POST", "DELETE")
        if request.method == "POST":
            return self._log_in(request)
        session = self._own_session(request)
        if request.method == "DELETE":
            self.sessions.end(session.id)
            return _json({"ended": session.id}, cookie_header("", seconds=0))
        return _json(shown(session))

    def _log_in(self, request: Request) -> Response:
        refusal = origin_refusal(request.headers)
        if refusal is not None:
            raise refusal
        credential, allow = self._shown_credential(_decoded(request, Login))
        browser = request.headers.get("user-agent", "")
        begun = self.sessions.begin(credential, allow_changes=allow, browser=browser, remote=request.remote)
        answer = {**msgspec.to_builtins(shown(begun.session)), "key": begun.key}
        return _json(answer, cookie_header(begun.cookie, seconds=SESSION_S))

    def _shown_credential(self, login: Login) -> tuple[Credential, bool]:
        """And whether changes are allowed. Raises 400, 401."""
        if bool(login.token) == bool(login.code):
            raise bad_request("log in with either a token or a code")
        if login.token:
            credential = self._authenticator.credential_of_token(login.token.strip())
            if credential is None:
                raise unauthorized("this token is not valid")
            return credential, login.allow_changes
        code = self.sessions.redeem(login.code)
        if code is None or not self._authenticator.is_valid(code.credential):
            raise unauthorized("this link was used already, or is too old: `fathom page` prints another")
        return code.credential, code.allow_changes

    def _link(self, request: Request) -> Response:
        _require_same_site(request)
        if any(name.startswith(IMPERSONATE) for name in request.headers):
            raise forbidden("a link is for the user who asks for it, and acts as nobody else")
        credential = self._authenticator.credential_of(request)
        asked = _decoded(request, LinkAsked)
        code = self.sessions.make_code(credential, allow_changes=asked.allow_changes)
        return _json({"code": code, "path": f"{PREFIX}#login={code}", "seconds": CODE_S})

    def _sessions_path(self, request: Request) -> Response:
        _need(request.method, "GET", "DELETE")
        visible = self._visible(request)
        wanted = request.path.removeprefix(SESSIONS).strip("/")
        if request.method == "GET" and wanted:
            raise no_such_path()
        if request.method == "GET":
            return _json({"sessions": [shown(session) for session in visible]})
        ids = [session.id for session in visible if not wanted or session.id == wanted]
        if wanted and not ids:
            raise not_found("sessions", wanted[:50])
        for each in ids:
            self.sessions.end(each)
        return _json({"ended": ids})

    def _visible(self, request: Request) -> list[Session]:
        """The sessions that whoever asks may see and end. Raises 401, 403."""
        user = self._sender(request)
        target = RequestTarget(verb=request.method.lower(), path=SESSIONS)
        everyone = self._authorizer.authorize(user, target).allowed
        return [each for each in self.sessions.all() if everyone or each.credential.user.name == user.name]


class RequestSession:
    """A PageSession: the session of one request."""

    def __init__(self, sessions: Sessions, session: Session) -> None:
        self._sessions = sessions
        self._session = session

    @property
    def user(self) -> User:
        return self._session.credential.user

    def check(self, call: Call) -> None:
        if call.target.subresource in CONNECTIONS:
            raise forbidden(NO_CONNECTIONS)
        if not (self._session.allow_changes or _only_asks(call)):
            raise forbidden(READ_ONLY)

    def followed(self, answer: Answer) -> Answer:
        answer.headers = (*answer.headers, ("x-content-type-options", "nosniff"))
        if isinstance(answer, StreamResponse):
            answer.source = SessionStream(answer.source, self._session)
        return answer


def _only_asks(call: Call) -> bool:
    """Reads, questions, and writes that are only tried."""
    target = call.target
    if target.verb in READS or (call.kind.virtual and not target.subresource):
        return True
    return call.dry_run and target.subresource in TRIED_SUBRESOURCES and call.kind.resource != BATCHES


def shown(session: Session) -> ShownSession:
    user = session.credential.user
    return ShownSession(
        id=session.id,
        user=user.name,
        groups=user.groups,
        allow_changes=session.allow_changes,
        began=timestamp(session.began_ns),
        used=timestamp(session.used_ns),
        ends=timestamp(session.ends_ns),
        browser=session.browser,
        remote=session.remote,
        version=__version__,
    )


def _require_same_site(request: Request) -> None:
    """Raises 403."""
    if is_cross_site_write(request.method, request.headers):
        raise forbidden("the request comes from a page of another site")


def _need(method: str, *allowed: str) -> None:
    if method not in allowed:
        raise method_not_allowed(*allowed)


def _decoded(request: Request, kind: type[Body]) -> Body:
    try:
        return msgspec.json.decode(request.body or b"{}", type=kind)
    except msgspec.DecodeError as error:
        raise bad_request(f"the body could not be read: {error}") from None


def _json(answer: object, cookie: str = "") -> Response:
    headers = (("cache-control", "no-store"), *((("set-cookie", cookie),) if cookie else ()))
    return Response(200, encode_json(answer), headers=headers)
