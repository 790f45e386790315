"""Serves OverridePreview: what an override would do, from a fork of the cluster or as a pure what-if.

    POST …/overridepreviews  spec      the same object with its answer as `status`; nothing is written
    GET  …/overridepreviews/TOKEN      an earlier answer, with what has moved since

An answer from a fork tells about the whole cluster: it needs the verb `fork` on `clusterstates.fathom.dev`,
cluster-wide. Without it the answer is what the pure decision says about pods that the user may read.
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
from fathom.ask.access import Access
from fathom.ask.kept_cluster import KeptCluster
from fathom.ask.objects import CachedObjects
from fathom.ask.preview_child import (
    STATE_BYTES_MAX,
    NoPreview,
    PreviewJob,
    answer_of_child,
    entries_for_fork,
)
from fathom.ask.subjects import kind_named
from fathom.ask.what_if_override import explain_with
from fathom.explain.evidence import Evidence, ObjectRef
from fathom.kinds.override_changes import INFRASTRUCTURE_TARGETS
from fathom.kinds.override_preview import (
    FORK_VERB,
    MINUTES_MAX,
    SEEDS_MAX,
    STATES,
    OverridePreviewSpec,
)
from fathom.kinds.preview_answer import (
    FORK,
    WHAT_IF,
    Preview,
    moved_objects,
    override_hash,
    preview_token,
    touched_object,
)
from fathom.kinds.scheduler_override import DEFINITION, SchedulerOverride, named
from fathom.kinds.shape import API_VERSION, GROUP, VERSION, read
from fathom.model.conditions import conditions_of
from fathom.model.errors import (
    bad_request,
    invalid,
    method_not_allowed,
    not_found,
    too_many_requests,
    unavailable,
)
from fathom.model.objects import Key, Obj, key_of, labels_of, lookup, metadata, with_metadata
from fathom.model.user import User

# Being made, or waiting for their turn: one is made at a time.
PREVIEWS_MAX = 4
TURN_S_MAX = 8.0  # With the time of one preview, less than the API server gives a request.
KEPT_MAX = 64  # Answers that can still be asked for by their token; some 20 KiB each.
# These change all the time and decide nothing.
RESTLESS = frozenset({"leases.coordination.k8s.io", "events", "events.events.k8s.io", "nodes"})
NEEDS_VERB = (
    f'a preview in a fork needs the verb "{FORK_VERB}" on {STATES}.{GROUP} in the whole cluster; this is '
    "only what the scheduler would decide about waiting pods"
)
AUTOSCALERS = "horizontalpodautoscalers.autoscaling"


# The state that it is of, the hash of the override, minutes, seeds, and how it was answered.
AskedPreview = tuple[str, str, int, int, str]


class KeptPreview(msgspec.Struct, frozen=True):
    namespace: str
    spec: Obj
    preview: Preview
    user: str  # Who asked. An answer that is no fork's is for this user alone.


class Previews:
    def __init__(self, core: Core, authorizer: Authorizer, kept_cluster: KeptCluster) -> None:
        self._core = core
        self._authorizer = authorizer
        self._kept_cluster = kept_cluster
        self._turn = asyncio.Lock()
        self._waiting = 0
        # The oldest first.
        self._kept: OrderedDict[AskedPreview, KeptPreview] = OrderedDict()

    async def serve(self, call: Call) -> Response:
        verb, named_one = call.target.verb, bool(call.target.name)
        if verb == "create" and not named_one:
            return await self._create(call)
        if verb == "get" and named_one:
            return await self._get(call)
        raise method_not_allowed("GET" if named_one else "POST")

    # An answer.

    async def _create(self, call: Call) -> Response:
        obj = bodies.decode(self._core, call)
        spec, override = _question(obj, call.namespace)
        await self._core.catch_up()
        if self._may_fork(call.caller.user):
            kept = await self._in_fork(call, spec, override)
        else:
            kept = await self._what_if(call, spec, override)
        return self._one(call, kept, kept.preview, status=201)

    def _may_fork(self, user: User) -> bool:
        target = RequestTarget(verb=FORK_VERB, path="", group=GROUP, version=VERSION, plural=STATES)
        return self._authorizer.authorize(user, target).allowed

    async def _in_fork(self, call: Call, spec: OverridePreviewSpec, override: Obj) -> KeptPreview:
        """Raises 429, 503."""
        if self._waiting >= PREVIEWS_MAX:
            raise too_many_requests(f"{PREVIEWS_MAX} previews are being made: ask again later")
        self._waiting += 1
        try:
            await self._take_turn()
            try:
                return await self._kept_or_made(call, spec, override)
            finally:
                self._turn.release()
        except NoPreview as error:
            raise unavailable(f"no preview: {error}") from None
        finally:
            self._waiting -= 1

    async def _take_turn(self) -> None:
        """Raises 429 in time for the deadline of the request."""
        try:
            async with asyncio.timeout(TURN_S_MAX):
                await self._turn.acquire()
        except TimeoutError:
            raise too_many_requests("another preview is being made: ask again later") from None

    async def _kept_or_made(self, call: Call, spec: OverridePreviewSpec, override: Obj) -> KeptPreview:
        # The author has his own rights in the fork, so the answer may be another for somebody else.
        how = f"{FORK} {_known_as(call.caller.user)}"
        asked = (self._state_seen(), override_hash(override), spec.minutes, spec.seeds, how)
        if asked not in self._kept:
            preview = await self._forked(call.caller.user, spec, override)
            self._keep(asked, KeptPreview(call.namespace, _wire(spec, override), preview, ""))
        return self._kept[asked]

    async def _forked(self, user: User, spec: OverridePreviewSpec, override: Obj) -> Preview:
        """Reads the store at one revision, ledgers and fences included. Raises NoPreview."""
        scaled = any(True for _ in self._core.cache.list(AUTOSCALERS))
        metrics = await usage_of_all_pods(self._core) if scaled else []
        page = await self._core.store.range("/")
        entries = await asyncio.to_thread(entries_for_fork, page.entries)
        size = sum(len(entry.body) for entry in entries)
        if size > STATE_BYTES_MAX:
            raise NoPreview(f"the cluster has {size >> 20} MiB of objects, more than a fork takes")
        job = PreviewJob(
            entries=entries,
            revision=page.revision,
            time_ns=self._core.outside.clock.now_ns(),
            pod_metrics=metrics,
            override=override,
            user=user,
            minutes=spec.minutes,
            seeds=tuple(str(number + 1) for number in range(spec.seeds)),
        )
        return await answer_of_child(job)

    def _state_seen(self) -> str:
        """Another one as soon as anything but a heartbeat has changed."""
        cache = self._core.cache
        kinds = (kind.resource for kind in self._core.registry.kinds() if not kind.virtual and kind.plural)
        newest = max(cache.revision(resource) for resource in kinds if resource not in RESTLESS)
        nodes = [_without_heartbeats(seen.obj) for seen in cache.list("nodes")]
        return f"{newest}-{hashlib.sha256(msgspec.json.encode(nodes)).hexdigest()[:16]}"

    async def _what_if(self, call: Call, spec: OverridePreviewSpec, override: Obj) -> KeptPreview:
        """Raises 403 for who may not get the pods, or the nodes, that the override is about."""
        access, objects = Access(self._authorizer, call.caller.user), CachedObjects(self._core.cache)
        shape = read(SchedulerOverride, override)
        target = named(shape.spec.target)
        about = "nodes" if target is not None and target.kind in INFRASTRUCTURE_TARGETS else "pods"
        place = ObjectRef(about, "" if about == "nodes" else call.namespace, "")
        access.require(kind_named(self._core.registry, about), place)
        evidence = Evidence(
            subject=ObjectRef("", call.namespace, ""),
            objects=objects,
            now_ns=self._core.outside.clock.now_ns(),
            may_read_nodes=access.may_read_nodes,
            readable=access.readable(objects),
        )
        rules = self._kept_cluster.rules
        pods = await asyncio.to_thread(explain_with, evidence, override, shape, rules)
        hash_ = override_hash(override)
        preview = Preview(
            token=preview_token(objects.revision("pods"), hash_),
            revision=objects.revision("pods"),
            hash=hash_,
            method=WHAT_IF,
            reason=NEEDS_VERB,
            minutes=spec.minutes,
            notes=() if pods else ("No pod of the target waits: there is nothing to decide now.",),
            what_if=pods,
            touched=tuple(
                touched_object(str(obj.get("kind")), obj) for obj in self._target_objects(shape, access)
            ),
        )
        user = call.caller.user.name
        kept = KeptPreview(call.namespace, _wire(spec, override), preview, user)
        self._keep((str(preview.revision), hash_, spec.minutes, spec.seeds, f"{WHAT_IF} {user}"), kept)
        return kept

    def _target_objects(self, override: SchedulerOverride, access: Access) -> list[Obj]:
        target, found = named(override.spec.target), []
        if target is None:
            return []
        names = {"workload": ("deployments.apps", "replicasets.apps", "jobs.batch"), "node": ("nodes",)}
        for name in names.get(target.kind, (target.kind,)):
            if target.kind in {"zone", "pool"}:
                continue
            kind = kind_named(self._core.registry, name)
            namespace = override.metadata.namespace if kind.namespaced else ""
            seen = self._core.cache.get(kind.resource, Key(namespace, target.name))
            if seen is not None and access.may_get(kind, namespace, target.name):
                found.append(seen.obj)
        return found

    def _keep(self, asked: AskedPreview, kept: KeptPreview) -> None:
        self._kept[asked] = kept
        self._kept.move_to_end(asked)
        while len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)

    # An earlier answer.

    async def _get(self, call: Call) -> Response:
        """Raises 404 where the answer is not kept any more, or is not for this user."""
        await self._core.catch_up()
        user = call.caller.user
        for kept in reversed(self._kept.values()):
            if kept.preview.token != call.target.name or kept.namespace != call.namespace:
                continue
            if kept.user == user.name if kept.user else self._may_fork(user):
                moved = moved_objects(kept.preview.touched, self._current(kept.preview))
                return self._one(call, kept, msgspec.structs.replace(kept.preview, moved=moved))
        raise not_found(call.kind.resource, call.target.name)

    def _current(self, preview: Preview) -> list[Obj]:
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


def _known_as(user: User) -> str:
    return msgspec.json.encode([user.name, sorted(user.groups), user.extra]).decode()


def _without_heartbeats(node: Obj) -> tuple[Any, ...]:
    """What anybody decides by."""
    conditions = [(each.get("type"), each.get("status")) for each in conditions_of(node)]
    return key_of(node), labels_of(node), node.get("spec"), lookup(node, "status", "allocatable"), conditions


def _question(obj: Obj, namespace: str) -> tuple[OverridePreviewSpec, Obj]:
    """The question, and its override as it would be stored. Raises 400, 422."""
    try:
        spec = read(OverridePreviewSpec, obj.get("spec") or {})
    except ValueError as error:
        raise bad_request(f"spec: {error}") from None
    for field, value, most in (("minutes", spec.minutes, MINUTES_MAX), ("seeds", spec.seeds, SEEDS_MAX)):
        if not 1 <= value <= most:
            raise bad_request(f"spec.{field} must be from 1 to {most}, not {value}")
    override = spec.override
    meta = override.get("metadata")
    if not isinstance(meta, dict) or not meta.get("name"):
        raise bad_request("spec.override.metadata.name is missing")
    if meta.get("namespace") not in {None, "", namespace}:
        raise bad_request(f"spec.override is in another namespace than the question, {namespace!r}")
    if override.get("kind") not in {None, DEFINITION.kind}:
        raise bad_request(f"spec.override must be a {DEFINITION.kind}, not a {override['kind']}")
    override = with_metadata(
        {**override, "kind": DEFINITION.kind, "apiVersion": API_VERSION}, namespace=namespace
    )
    try:
        read(SchedulerOverride, override)
    except ValueError as error:
        raise bad_request(f"spec.override: {error}") from None
    rules = DEFINITION.rules
    if causes := rules.validate_create(override) if rules and rules.validate_create else []:
        name = str(metadata(override)["name"])
        raise invalid(group=GROUP, kind=DEFINITION.kind, name=name, causes=causes)
    return spec, override


def _wire(spec: OverridePreviewSpec, override: Obj) -> Obj:
    return {"override": override, "minutes": spec.minutes, "seeds": spec.seeds}
