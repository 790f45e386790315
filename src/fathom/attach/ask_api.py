"""The API group `ask.fathom.dev`, as kube-apiserver's aggregation layer asks for it.

    kubectl ──> kube-apiserver ──front proxy──> AskApi: who asks (front_proxy), who may read what (reviews)
                                                    └──> AskViews, on the copy ──> the answer, or a Status

Decision, Explanation, Timeline and Coupling, discovery and OpenAPI, and nothing else: no object of the copy
is handed out. kube-apiserver has authorized the request itself; what the answer may tell is asked anew.
"""

from __future__ import annotations

import asyncio
import traceback

from fathom.api import response_forms
from fathom.api.auth.authenticate import NOBODY
from fathom.api.core import Call, Core, WriteVerdicts
from fathom.api.dispatch import kind_for
from fathom.api.limits import RequestRate, Throttle
from fathom.api.metrics import NoMetrics
from fathom.api.paths import Paths
from fathom.api.request import Answer, Caller, Request, RequestTarget
from fathom.api.server import warning_headers
from fathom.api.target import target_of
from fathom.api.verbs.bodies import check_text
from fathom.ask.views import AskViews
from fathom.attach.front_proxy import FrontProxy
from fathom.attach.reviewed_access import ReviewedAccess, Reviews
from fathom.kinds.shape import ASK_GROUP
from fathom.kube.definitions.own import ASK_KINDS
from fathom.kube.definitions.registry import Registry
from fathom.model.errors import ApiError, internal, no_such_path, timed_out, too_large, unavailable
from fathom.model.user import User
from fathom.seams.log import Log

HEALTH = ("/healthz", "/livez", "/readyz")
# What people type, and the reviews that it costs the cluster.
RATE = RequestRate(per_s=50, burst=200)
BODY_BYTES_MAX = 64 << 10  # A question is short.


def ask_registry() -> Registry:
    """Only these kinds are told of."""
    registry = Registry(Registry.builtin().definitions)
    for kind in ASK_KINDS:
        registry.add(kind)
    return registry


class AskApi:
    """Answers requests; `Http` has the connections."""

    def __init__(
        self,
        core: Core,
        views: AskViews,
        reviews: Reviews,
        proxy: FrontProxy,
        *,
        synced: asyncio.Event,
        log: Log,
    ) -> None:
        """`synced`: set when the copy is complete."""
        self.core = core
        self._proxy = proxy
        self._synced = synced
        self._views = views
        self._reviews = reviews
        self._log = log
        self._registry = ask_registry()
        self._paths = Paths(core, NoMetrics(), self._registry)
        self._throttle = Throttle(core.outside.clock, rate=RATE)

    async def handle(self, request: Request) -> Answer:
        try:
            return await self._serve(request)
        except ApiError as error:
            return response_forms.failure(error)
        except TimeoutError:
            return response_forms.failure(timed_out("the question took too long: ask again, or ask less"))
        except Exception as error:  # The last line of defence; logged with its stack.
            stack = traceback.format_exception(error)
            self._log.error("unexpected error", path=request.path, error=repr(error), stack=stack)
            return response_forms.failure(internal("see the log of `fathom attach`"))

    def check_sender(self, request: Request, body_bytes: int) -> None:
        """Of a body in chunks nobody knows the size yet: it is looked at when it is there."""
        self._user_of(request)
        if body_bytes > BODY_BYTES_MAX and "transfer-encoding" not in request.headers:
            raise too_large(BODY_BYTES_MAX)

    def _user_of(self, request: Request) -> User:
        """Health is for the probes of kubelets, which have no certificate. Raises 401, 403."""
        if request.path in HEALTH:
            return NOBODY
        return self._proxy.user_of(request, now_ns=self.core.outside.clock.now_ns())

    async def _serve(self, request: Request) -> Answer:
        user, target = self._user_of(request), target_of(request)
        self._throttle.admit(user)
        if len(request.body) > BODY_BYTES_MAX:
            raise too_large(BODY_BYTES_MAX)
        if not target.is_resource:
            if not _is_told(request.path):
                raise no_such_path()
            return self._paths.serve(request)
        with self._throttle.room(user, target):
            async with asyncio.timeout(self.core.limits.request_s):
                return await self._answer(self._call(request, target, user))

    async def _answer(self, call: Call) -> Answer:
        if call.target.subresource:
            raise no_such_path()
        if not self._synced.is_set():
            raise unavailable("the objects of the cluster are still being copied")
        if call.request.body:
            check_text(call.request)
        access = ReviewedAccess(self._reviews, call.caller.user, call.namespace)
        answer = await self._views.answer(call, access)
        if call.warnings:
            answer.headers = (*answer.headers, *warning_headers(list(call.warnings), call.warnings_untold))
        return answer

    def _call(self, request: Request, target: RequestTarget, user: User) -> Call:
        agent = request.headers.get("user-agent", "")
        return Call(
            request=request,
            target=target,
            kind=kind_for(self._registry, target),
            caller=Caller(user=user, user_agent=agent, remote=request.remote),
            form=response_forms.form_of(request),
            warnings={},
            audit=WriteVerdicts(),
        )


def _is_told(path: str) -> bool:
    """Nothing of the rest: metrics, versions and kinds are the copy's."""
    path = path.rstrip("/")
    return path in {"/apis", "/version", *HEALTH} or path.startswith((f"/apis/{ASK_GROUP}", "/openapi/"))
