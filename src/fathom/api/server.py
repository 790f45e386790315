"""The path of a request: authenticate, throttle, authorize, dispatch, audit.

    Request ──> authenticate ──> limits ──> authorize ──> dispatch ──> Answer
                                                               └──> audit (writes)

Every error becomes a Status here, in one place. An unexpected exception is logged with its stack under the
request's id; the client gets a 500 with that id and nothing else.
"""

from __future__ import annotations

import asyncio
import traceback

from fathom.api import response_forms
from fathom.api.auth.allowed_stream import while_allowed
from fathom.api.auth.authenticate import Authenticator
from fathom.api.auth.authorize import Authorizer
from fathom.api.core import Call, Core, WriteVerdicts
from fathom.api.deadlines import Deadlines
from fathom.api.dispatch import Dispatch, kind_for
from fathom.api.limits import Throttle, is_long, timeout_s
from fathom.api.metrics import Metrics
from fathom.api.named_ports import NamedPorts
from fathom.api.paths import Paths
from fathom.api.process_pages import page_of, serve_process_page
from fathom.api.request import Answer, Caller, Request, RequestTarget, Response, UpgradeResponse
from fathom.api.target import CONNECTIONS, target_of
from fathom.api.traced_writes import traced_write
from fathom.api.verbs.bodies import check_text
from fathom.api.web_page import NoWebPage, PageSession, PageWrite, WebPage
from fathom.model.accounts import believed_actor
from fathom.model.audit import AuditEntry, AuditSink
from fathom.model.errors import ApiError, internal, timed_out, too_large, unavailable
from fathom.model.times import SECOND_NS, micro_timestamp
from fathom.model.traced import SpanSink
from fathom.model.user import ANONYMOUS, User
from fathom.model.well_known import ACTOR_HEADER, DECISION_HEADER, FENCE_HEADER, OVERRIDES_SEEN_HEADER
from fathom.seams.log import Log
from fathom.store.protocol import StoreUnavailable

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
HEX = frozenset("0123456789abcdef")
TARGETS_MAX = 4096  # Some hundred bytes each.
TARGET_CHARS_MAX = 512  # Longer paths are rarely requested twice: they are parsed each time.
ANONYMOUS_BODY_BYTES_MAX = 1024
# Of all warnings of one answer; and of each warning, if together they are longer. kube-apiserver's numbers.
WARNINGS_CHARS_MAX = 4096
WARNING_CHARS_MAX = 256
SLOW_S = 1.0  # A slower request is logged.


class ApiServer:
    def __init__(
        self,
        core: Core,
        *,
        dispatch: Dispatch,
        authenticator: Authenticator,
        authorizer: Authorizer,
        throttle: Throttle,
        audit: AuditSink | None,
        metrics: Metrics,
        log: Log,
        traces: SpanSink | None = None,
        page: WebPage | None = None,
    ) -> None:
        self.core = core
        self.metrics = metrics
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._throttle = throttle
        self._dispatch = dispatch
        self._audit = audit
        self._log = log
        self._traces = traces
        self._page = page or NoWebPage()
        self._paths = Paths(core, metrics)
        self._clock = core.outside.clock
        self._prefix = f"{core.outside.rng.getrandbits(48):012x}"  # Request id prefix: one per server start.
        self._count = 0
        self._deadlines = Deadlines(core.limits.request_s)
        self._targets: dict[
            tuple[str, str], RequestTarget
        ] = {}  # A memo: clients request the same paths again and again.

    async def handle(self, request: Request) -> Answer:
        started_ns = self._clock.monotonic_ns()
        self._count += 1
        request_id = f"{self._prefix}-{self._count:x}"
        target = self._target(request)
        try:
            answer = await self._serve(request, target, request_id)
        except ApiError as error:
            answer = response_forms.failure(error)
        except StoreUnavailable as error:
            answer = response_forms.failure(unavailable(f"the store cannot be used now: {error}"))
        except TimeoutError:
            answer = response_forms.failure(
                timed_out("the request timed out: read the object before trying again")
            )
        except Exception as error:  # The last line of defence; logged with its stack.
            answer = self._internal_error(request, request_id, error)
        seconds = (self._clock.monotonic_ns() - started_ns) / 1e9
        self.metrics.observe(target, answer.status, seconds)
        if seconds > SLOW_S or answer.status >= 500:
            self._log.warn(
                "request",
                id=request_id,
                method=request.method,
                path=request.path,
                status=answer.status,
                seconds=round(seconds, 3),
                trace=trace_id(request.headers.get("traceparent", "")),
                decision=request.headers.get(DECISION_HEADER, ""),
            )
        answer.headers = (*answer.headers, ("audit-id", request_id))
        return answer

    def check_sender(self, request: Request, body_bytes: int) -> None:
        """Called before a body is read: raise 401 unless the request's head authenticates its sender. An
        anonymous client has no reason to send a body."""
        if self._page.check_body(request, body_bytes):
            return
        user = self._authenticator.authenticate(request)
        if user.name == ANONYMOUS and body_bytes > ANONYMOUS_BODY_BYTES_MAX:
            raise too_large(ANONYMOUS_BODY_BYTES_MAX)

    def _target(self, request: Request) -> RequestTarget:
        if request.query or len(request.path) > TARGET_CHARS_MAX:
            return target_of(request)
        address = (request.method, request.path)
        target = self._targets.get(address)
        if target is None:
            if len(self._targets) >= TARGETS_MAX:
                self._targets.clear()
            target = self._targets[address] = target_of(request)
        return target

    async def _serve(self, request: Request, target: RequestTarget, request_id: str) -> Answer:
        if self._page.serves(request):
            return await self._served_page(request, request_id)
        session = self._page.session_of(request)
        user = self._user_of(request) if session is None else session.user
        self._throttle.admit(user)
        try:
            allowed = self._authorizer.require(user, target)
        except ApiError as error:
            if target.subresource in CONNECTIONS and target.plural == "pods":
                self._record_forbidden(self._call(request, target, user, request_id), error.code)
            raise
        if not target.is_resource:
            if (page := page_of(request.path)) is not None:
                # The API server's own health is public; that of other processes requires permission to read
                # their metrics.
                self._authorizer.require(user, RequestTarget(verb="get", path=f"/metrics/{page[1]}"))
                return await serve_process_page(self.core, request, page)
            return self._paths.serve(request)
        if self.core.cache.problem:
            raise unavailable(self.core.cache.problem)
        with self._throttle.room(user, target):
            call = self._call(request, target, user, request_id)
            call.audit.break_glass = allowed.override
            answer = await self._answered_in(session, call)
            return while_allowed(answer, self._authorizer, user, target) if allowed.override else answer

    async def _served_page(self, request: Request, request_id: str) -> Answer:
        write = self._page.write_of(request)
        answer = await self._page.serve(request, self.handle)
        if write is not None and self._audit is not None:
            self._audit.record(_page_entry(write, request, request_id, answer.status, self._clock.now_ns()))
        return answer

    def _user_of(self, request: Request) -> User:
        user = self._authenticator.authenticate(request)
        return self._authenticator.impersonated(request, user, self._authorizer)

    async def _answered_in(self, session: PageSession | None, call: Call) -> Answer:
        if session is None:
            return await self._answer(call)
        session.check(call)
        return session.followed(await self._answer(call))

    def _call(self, request: Request, target: RequestTarget, user: User, request_id: str) -> Call:
        headers = request.headers
        caller = Caller(
            user=user,
            request_id=request_id,
            user_agent=headers.get("user-agent", ""),
            remote=request.remote,
            fence=headers.get(FENCE_HEADER, ""),
            overrides_seen=headers.get(OVERRIDES_SEEN_HEADER, ""),
            decision=headers.get(DECISION_HEADER, ""),
            trace=trace_id(headers.get("traceparent", "")),
            began_ns=0 if self._traces is None else self._clock.now_ns(),
        )
        return Call(
            request=request,
            target=target,
            kind=kind_for(self.core.registry, target),
            caller=caller,
            form=response_forms.form_of(request),
            warnings={},
            audit=WriteVerdicts(),
        )

    async def _answer(self, call: Call) -> Answer:
        if call.kind.deprecated:
            call.warn(call.kind.deprecated)
        if call.request.body:
            check_text(call.request)
        if call.target.verb not in WRITES or call.kind.virtual:
            answer = await self._dispatch.serve(call)
        else:
            answer = await self._write(call)
        if call.warnings:
            answer.headers = (*answer.headers, *warning_headers(list(call.warnings), call.warnings_untold))
        return answer

    async def _write(self, call: Call) -> Answer:
        try:
            if call.request.query or is_long(call.target):
                deadline_s = timeout_s(call.target, call.request.param("timeout"), self.core.limits.request_s)
                async with asyncio.timeout(deadline_s):
                    answer = await self._dispatch.serve(call)
            else:
                answer = await self._in_time(call)
        except ApiError as error:
            self._record_all(call, error.code)
            raise
        except TimeoutError:
            self._record_all(call, 504)
            raise
        except StoreUnavailable:
            self._record_all(call, 503)
            raise
        except Exception:
            self._record_all(call, 500)
            raise
        self._record_all(call, answer.status)
        if isinstance(answer, UpgradeResponse):
            self._record_ports(call, answer)
            self._record_end(call, answer)
        return answer

    def _record_forbidden(self, call: Call, code: int) -> None:
        """Who tries to run commands without permission is in the audit log, as in Kubernetes."""
        call.audit.container = call.request.param("container")
        call.audit.command = tuple(call.request.query.get("command", ()))
        self._record_all(call, code)

    def _record_ports(self, call: Call, answer: UpgradeResponse) -> None:
        """What a client names on its connection has an entry before it reaches the agent."""
        if self._audit is None or not answer.ports_follow:
            return

        def record(port: int) -> None:
            call.audit.ports = (*call.audit.ports, port)
            actor = believed_actor(call.caller.user, call.request.headers.get(ACTOR_HEADER, ""))
            self._record(call, answer.status, f"{call.caller.request_id}.port-{port}", actor)

        answer.frames.look = NamedPorts(record).feed

    def _record_end(self, call: Call, answer: UpgradeResponse) -> None:
        """A connection into a pod has a second audit entry, at its end."""
        began_ns, ended = self._clock.monotonic_ns(), answer.ended

        def record() -> None:
            if ended is not None:
                ended()
            if self._audit is not None:
                actor = believed_actor(call.caller.user, call.request.headers.get(ACTOR_HEADER, ""))
                seconds = round((self._clock.monotonic_ns() - began_ns) / SECOND_NS, 3)
                entry_id = f"{call.caller.request_id}.end"
                self._record(call, answer.status, entry_id, actor, seconds=seconds)

        answer.ended = record

    async def _in_time(self, call: Call) -> Answer:
        deadline = self._deadlines.begin()
        task = deadline.task
        try:
            return await self._dispatch.serve(call)
        except asyncio.CancelledError:
            if task is not None and deadline.is_ours(task):
                raise TimeoutError from None
            raise
        finally:
            self._deadlines.end(deadline)

    def _record_all(self, call: Call, code: int) -> None:
        """Write one audit entry for the call; if it wrote several objects, one for each, with the same
        request id."""
        if self._audit is None:
            return
        actor = believed_actor(call.caller.user, call.request.headers.get(ACTOR_HEADER, ""))
        for index, part in enumerate(call.parts):
            self._record(part, 200, f"{call.caller.request_id}.{index}", actor)
        if not call.parts or code >= 400:
            self._record(call, code, call.caller.request_id, actor)

    def _record(
        self, call: Call, code: int, entry_id: str, actor: str, *, seconds: float | None = None
    ) -> None:
        target, user, verdicts = call.target, call.caller.user, call.audit
        assert self._audit is not None
        now_ns = self._clock.now_ns()
        entry = AuditEntry(
            id=entry_id,
            request=call.caller.request_id,
            trace=call.caller.trace,
            time=micro_timestamp(now_ns),
            user=user.name,
            groups=user.groups,
            impersonator=user.impersonator,
            verb=target.verb,
            resource=call.kind.resource,
            subresource=target.subresource,
            namespace=call.namespace,
            name=verdicts.name or target.name,
            uid=verdicts.uid,
            user_agent=call.caller.user_agent,
            source=call.caller.remote,
            decision=verdicts.decision or call.caller.decision,
            actor=actor,
            code=code,
            revision=verdicts.revision,
            changed=tuple(verdicts.changed),
            admission=tuple(verdicts.admission),
            container=verdicts.container,
            command=verdicts.command,
            ports=verdicts.ports,
            seconds=seconds,
            dry_run=call.dry_run,
            break_glass=verdicts.break_glass,
        )
        self._audit.record(entry)
        if self._traces is not None:
            self._traces.add(traced_write(call, entry, self.core.cache, now_ns=now_ns))

    def _internal_error(self, request: Request, request_id: str, error: Exception) -> Response:
        self._log.error(
            "unexpected error",
            id=request_id,
            method=request.method,
            path=request.path,
            error=repr(error),
            decision=request.headers.get(DECISION_HEADER, ""),
            stack=traceback.format_exception(error),
        )
        return response_forms.failure(internal(f"see the server's log for request {request_id}"))


def _page_entry(write: PageWrite, request: Request, request_id: str, code: int, now_ns: int) -> AuditEntry:
    return AuditEntry(
        id=request_id,
        request=request_id,
        time=micro_timestamp(now_ns),
        user=write.user.name,
        groups=write.user.groups,
        impersonator=write.user.impersonator,
        verb=write.verb,
        resource=write.resource,
        subresource=write.subresource,
        namespace=write.namespace,
        name=write.name,
        user_agent=request.headers.get("user-agent", ""),
        source=request.remote,
        code=code,
    )


def warning_headers(texts: list[str], untold: int) -> tuple[tuple[str, str], ...]:
    """The warnings as headers: bounded in total length, each warning cut short where the total would be
    exceeded."""
    if sum(map(len, texts)) > WARNINGS_CHARS_MAX:
        texts = [text[:WARNING_CHARS_MAX] for text in texts]
    shown: list[str] = []
    remaining = WARNINGS_CHARS_MAX
    for text in texts:
        if len(text) > remaining:
            break
        shown.append(text)
        remaining -= len(text)
    untold += len(texts) - len(shown)
    if untold:
        shown.append(f"and {untold} more warnings")
    return tuple(("warning", f'299 - "{_header_text(text)}"') for text in shown)


def _header_text(text: str) -> str:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return "".join(char if " " <= char <= "~" else "?" for char in quoted)


def trace_id(traceparent: str) -> str:
    """The trace id of a W3C trace context (version-traceid-parentid-flags, in hexadecimal); '' if it is
    malformed."""
    if not traceparent:
        return ""
    parts = traceparent.split("-")
    if len(parts) < 4 or len(parts[1]) != 32 or not set(parts[1]) <= HEX or parts[1] == "0" * 32:
        return ""
    return parts[1]
