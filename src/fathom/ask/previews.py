"""Serves OverridePreview: what an override or a run would do, from a fork of the cluster; of an override also
as a pure what-if.

    POST …/overridepreviews  spec      the same object with its answer as `status`; nothing is written
    GET  …/overridepreviews/TOKEN      an earlier answer, with what has moved since

An answer from a fork tells about the whole cluster: it needs the verb `fork` on `clusterstates.fathom.dev`,
cluster-wide. Without it the answer is what the pure decision says about pods that the user may read; nothing
can be said about a run then.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from typing import Any

import msgspec

from fathom.api import response_forms
from fathom.api.auth.authorize import Authorizer
from fathom.api.core import Call, Core
from fathom.api.request import RequestTarget, Response
from fathom.api.resource_usage import usage_of_all_pods
from fathom.api.verbs import bodies
from fathom.ask.access import RoleAccess
from fathom.ask.kept_cluster import KeptCluster
from fathom.ask.preview_child import (
    STATE_BYTES_MAX,
    NoPreview,
    PreviewJob,
    answer_of_child,
    entries_for_fork,
)
from fathom.ask.preview_question import PreviewQuestion, question_of
from fathom.ask.subjects import kind_named
from fathom.ask.turns import Turns
from fathom.ask.what_if_override import WhatIfOverride
from fathom.kinds.override_preview import FORK_VERB, STATES
from fathom.kinds.preview_answer import FORK, Preview, moved_objects, tried_hash
from fathom.kinds.shape import GROUP, VERSION
from fathom.model.conditions import conditions_of
from fathom.model.errors import forbidden, method_not_allowed, not_found, unavailable
from fathom.model.objects import Key, Obj, key_of, labels_of, lookup
from fathom.model.resource_names import AUTOSCALERS
from fathom.model.user import User

# One is made at a time. With the time of one, less than the API server gives a request.
WAITING_MAX, WAIT_S_MAX = 4, 8.0
KEPT_MAX = 64  # Answers that can still be asked for by their token; some 20 KiB each.
# These change all the time. Nodes are looked at by themselves.
RESTLESS = frozenset({"leases.coordination.k8s.io", "events", "events.events.k8s.io", "nodes"})

RUN_NEEDS_VERB = f'a run in a fork needs the verb "{FORK_VERB}" on {STATES}.{GROUP} in the whole cluster'

# The state that it is of, the hash of what is tried, minutes, seeds, and for whom it was answered.
AskedPreview = tuple[str, str, int, int, str]


class KeptPreview(msgspec.Struct, frozen=True):
    namespace: str
    spec: Obj
    preview: Preview
    user: str  # Who asked.


class Previews:
    def __init__(self, core: Core, authorizer: Authorizer, kept_cluster: KeptCluster) -> None:
        self._core = core
        self._authorizer = authorizer
        self._what_if = WhatIfOverride(core, kept_cluster)
        self._forks = Turns(waiting_max=WAITING_MAX, wait_s_max=WAIT_S_MAX, what="previews")
        self._what_ifs = Turns(waiting_max=WAITING_MAX, wait_s_max=WAIT_S_MAX, what="previews")
        self._kept: OrderedDict[AskedPreview, KeptPreview] = OrderedDict()  # The oldest first.

    async def serve(self, call: Call) -> Response:
        verb, has_name = call.target.verb, bool(call.target.name)
        if verb == "create" and not has_name:
            return await self._create(call)
        if verb == "get" and has_name:
            return await self._get(call)
        raise method_not_allowed("GET" if has_name else "POST")

    # An answer.

    async def _create(self, call: Call) -> Response:
        """Raises 400, 403, 422, 429, 503."""
        question = question_of(bodies.decode(self._core, call), call.namespace)
        await self._core.catch_up()
        if self._may_fork(call.caller.user):
            async with self._forks:
                kept = await self._in_fork(call, question)
        elif question.of_run:
            raise forbidden(RUN_NEEDS_VERB)
        else:
            async with self._what_ifs:
                asked, access = self._asked(call, question), RoleAccess(self._authorizer, call.caller.user)
                kept = self._keep(asked, call, question, await self._what_if.answer(question, access))
        return self._one(call, kept, kept.preview, status=201)

    def _may_fork(self, user: User) -> bool:
        target = RequestTarget(verb=FORK_VERB, path="", group=GROUP, version=VERSION, plural=STATES)
        return self._authorizer.authorize(user, target).allowed

    async def _in_fork(self, call: Call, question: PreviewQuestion) -> KeptPreview:
        """The answer in memory, where nothing has changed since. Raises 503."""
        asked = self._asked(call, question)  # Before the store is read: what changes meanwhile makes it old.
        kept = self._kept.get(asked)
        if kept is not None and kept.preview.method == FORK:
            return kept
        try:
            preview = await self._forked(call.caller.user, question)
        except NoPreview as error:
            raise unavailable(f"no preview: {error}") from None
        return self._keep(asked, call, question, preview)

    async def _forked(self, user: User, question: PreviewQuestion) -> Preview:
        """Reads the store at one revision, ledgers and fences included. Raises NoPreview."""
        is_scaled = any(True for _ in self._core.cache.list(AUTOSCALERS))
        metrics = await usage_of_all_pods(self._core) if is_scaled else []
        page = await self._core.store.range("/")
        entries = await asyncio.to_thread(entries_for_fork, page.entries)
        size = sum(len(entry.body) for entry in entries)
        if size > STATE_BYTES_MAX:
            raise NoPreview(f"the cluster has {size >> 20} MiB of objects, more than a fork takes")
        return await answer_of_child(
            PreviewJob(
                entries=entries,
                revision=page.revision,
                time_ns=self._core.outside.clock.now_ns(),
                pod_metrics=metrics,
                tried=question.tried,
                user=user,
                minutes=question.minutes,
                seeds=tuple(str(number + 1) for number in range(question.seeds)),
            )
        )

    # Memory.

    def _keep(
        self, asked: AskedPreview, call: Call, question: PreviewQuestion, preview: Preview
    ) -> KeptPreview:
        kept = KeptPreview(call.namespace, question.spec, preview, call.caller.user.name)
        self._kept[asked] = kept
        self._kept.move_to_end(asked)
        while len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        return kept

    def _asked(self, call: Call, question: PreviewQuestion) -> AskedPreview:
        """Authors have their own rights in a fork, so the answer may be another for somebody else."""
        user = call.caller.user
        known_as = msgspec.json.encode([user.name, sorted(user.groups), user.extra]).decode()
        hash_ = tried_hash(question.tried)
        return self._state_seen(), hash_, question.minutes, question.seeds, known_as

    def _state_seen(self) -> str:
        """Another one as soon as anything but a heartbeat has changed."""
        cache = self._core.cache
        kinds = (kind.resource for kind in self._core.registry.kinds() if not kind.virtual and kind.plural)
        newest = max(cache.revision(resource) for resource in kinds if resource not in RESTLESS)
        nodes = [_without_heartbeats(seen.obj) for seen in cache.list("nodes")]
        return f"{newest}-{hashlib.sha256(msgspec.json.encode(nodes)).hexdigest()[:16]}"

    async def _get(self, call: Call) -> Response:
        """Raises 404 where the answer is not kept any more, or is not for this user."""
        await self._core.catch_up()
        for kept in reversed(self._kept.values()):
            is_asked = (kept.preview.token, kept.namespace) == (call.target.name, call.namespace)
            if is_asked and self._is_for(kept, call.caller.user):
                moved = moved_objects(kept.preview.touched, self._current(kept.preview))
                return self._one(call, kept, msgspec.structs.replace(kept.preview, moved=moved))
        raise not_found(call.kind.resource, call.target.name)

    def _is_for(self, kept: KeptPreview, user: User) -> bool:
        """Who may fork may see every fork's answer; a what-if tells what its user may read."""
        return self._may_fork(user) if kept.preview.method == FORK else kept.user == user.name

    def _current(self, preview: Preview) -> list[Obj]:
        """What the preview touched, as it is now."""
        seen = [
            self._core.cache.get(
                kind_named(self._core.registry, touched.kind).resource, Key(touched.namespace, touched.name)
            )
            for touched in preview.touched
        ]
        return [each.obj for each in seen if each is not None]

    def _one(self, call: Call, kept: KeptPreview, preview: Preview, *, status: int = 200) -> Response:
        obj: Obj = {
            "kind": call.kind.kind,
            "apiVersion": call.kind.api_version,
            "metadata": {"name": preview.token, "namespace": kept.namespace},
            "spec": kept.spec,
            "status": msgspec.to_builtins(preview),
        }
        now_ns = self._core.outside.clock.now_ns()
        return response_forms.unstored(call.kind, obj, call.form, now_ns=now_ns, status=status)


def _without_heartbeats(node: Obj) -> tuple[Any, ...]:
    """What anybody decides by."""
    conditions = [(each.get("type"), each.get("status")) for each in conditions_of(node)]
    return key_of(node), labels_of(node), node.get("spec"), lookup(node, "status", "allocatable"), conditions
