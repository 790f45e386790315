"""Serves the kinds that are answered and never stored: Decision, Explanation, Timeline, Coupling.
OverridePreview is served by `previews`.

    GET  …/decisions[/ID]              recorded decisions, newest `limit`, oldest first
    POST …/explanations  spec          the same object with its answer as `status`
    GET  …/explanations/KIND.NAME      the same, for a question that needs nothing but its subject

Whoever may `get` the subject may ask: `access`. The pure parts run in a thread, so that other requests need
not wait for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from fathom.api import response_forms
from fathom.api.auth.authorize import Authorizer
from fathom.api.core import Call, Core
from fathom.api.request import Response
from fathom.api.verbs import bodies
from fathom.api.verbs.versions import parse_limit
from fathom.ask.access import Access, RoleAccess
from fathom.ask.collect import Collector, Sources
from fathom.ask.decisions import VisibleParts, decision_object
from fathom.ask.kept_cluster import KeptCluster
from fathom.ask.objects import CachedObjects
from fathom.ask.past import TAPE, Past, PastState, wanted_moment
from fathom.ask.preparation import Preparation
from fathom.ask.previews import Previews
from fathom.ask.processes import concerned_agents, nodes_with_agents
from fathom.ask.subjects import asked_object, kind_named, namespace_of_answer, object_of_name
from fathom.ask.table import ANSWERS, SPECS, Spec
from fathom.ask.tapes import TapedObjects
from fathom.ask.wire import wire
from fathom.explain.evidence import Evidence, Gap, ObjectRef, Objects, Recorded, RecordQuery
from fathom.explain.hidden_names import hidden_from
from fathom.kinds.coupling import CouplingSpec
from fathom.kinds.decision import DECISIONS
from fathom.kinds.explanation import ExplanationSpec
from fathom.kinds.override_preview import OVERRIDE_PREVIEWS
from fathom.kinds.shape import GROUP, read
from fathom.kinds.timeline import TimelineSpec
from fathom.kube.definitions.kind import Kind
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.body import encode_json
from fathom.model.errors import (
    ApiError,
    bad_request,
    expired,
    method_not_allowed,
    not_found,
    not_supported,
    too_many_requests,
    unavailable,
)
from fathom.model.objects import Obj, lookup
from fathom.model.selectors import parse_field_selector, parse_label_selector
from fathom.model.times import micro_timestamp
from fathom.schedule.loop.user_rules import installed_rules
from fathom.seams.log import Log

DECISIONS_SHOWN, DECISIONS_SHOWN_MAX = 500, 5000
# A question may have to make the scheduler's view of the cluster, one about a list has thousands of pods, and
# every user may ask.
QUESTIONS_AT_ONCE, QUESTIONS_MAX = 2, 32
# For one id or one list, which every user may ask for. A list about the pod asks the right agent.
AGENTS_ASKED_MAX = 100
_NOT_ASKED = (
    "of {all} agents concerned {asked} were asked: list the decisions about a pod to ask its own, with"
    " --field-selector spec.subject.resource=pods,spec.subject.name=NAME"
)


class AskViews:
    def __init__(self, core: Core, authorizer: Authorizer, sources: Sources) -> None:
        self._core = core
        self._authorizer = authorizer
        self._collector = Collector(
            core.agents, sources, core.outside.clock, current=lambda: CachedObjects(core.cache)
        )
        self._past = Past(core, core.agents, sources.audit)
        self._kept = KeptCluster(installed_rules, attached=bool(sources.attached))
        self._previews = Previews(core, authorizer, self._kept)
        self._turns = asyncio.Semaphore(QUESTIONS_AT_ONCE)
        self._questions = 0  # Being answered or waiting for their turn: at most QUESTIONS_MAX.

    @property
    def objects_prepared(self) -> int:
        return self._kept.size

    async def prepare(self, log: Log) -> None:
        """Keep the first question from making the view of the whole cluster. Runs until it is cancelled."""
        await Preparation(self._kept, self._core.cache, log).run()

    async def serve(self, call: Call) -> Response:
        """For a user whose rights are those of this server's roles. Raises 429 if too many questions wait."""
        if call.kind.resource == OVERRIDE_PREVIEWS:  # They take longer, and have limits of their own.
            return await self._previews.serve(call)
        return await self.answer(call, RoleAccess(self._authorizer, call.caller.user))

    async def answer(self, call: Call, access: Access) -> Response:
        """Raises 429 if too many questions wait."""
        if self._questions >= QUESTIONS_MAX:
            raise too_many_requests(f"{QUESTIONS_MAX} questions are being answered: ask again later")
        self._questions += 1
        try:
            async with self._turns:
                return await self._serve(call, access)
        finally:
            self._questions -= 1

    async def _serve(self, call: Call, access: Access) -> Response:
        verb = call.target.verb
        if question_kind(call.kind) == DECISIONS:
            if verb not in {"get", "list"}:
                raise method_not_allowed("GET")
            serve_decisions = self._get_decision if verb == "get" else self._list_decisions
            return await serve_decisions(call, access)
        if verb == "create" and not call.target.name:
            return await self._create(call, access)
        if verb == "get":
            return await self._get(call, access)
        raise method_not_allowed("GET" if call.target.name else "POST")

    # Questions.

    async def _create(self, call: Call, access: Access) -> Response:
        obj = bodies.decode(self._core, call)
        try:
            spec = read(SPECS[question_kind(call.kind)], obj.get("spec") or {})
        except ValueError as error:
            raise bad_request(f"spec: {error}") from None
        return self._one(call, {**obj, **await self._answered(call, spec, access)}, status=201)

    async def _get(self, call: Call, access: Access) -> Response:
        spec = SPECS[question_kind(call.kind)](subject=object_of_name(call.target.name))
        head = {"kind": call.kind.kind, "apiVersion": call.kind.api_version, "spec": wire(spec)}
        return self._one(call, {**head, **await self._answered(call, spec, access)})

    async def _answered(self, call: Call, spec: Spec, access: Access) -> Obj:
        """Metadata and status of the answer."""
        functions = ANSWERS.get(question_kind(call.kind))
        if functions is None:
            raise not_supported(call.kind.plural)
        name, subject = await self._subject(call, spec, access)
        await self._core.catch_up()
        spec, past, past_gaps = await self._at(spec)
        objects = CachedObjects(self._core.cache) if past is None else past.objects
        if isinstance(objects, TapedObjects) and subject.name and not objects.has(subject.resource):
            forgotten = "the store has forgotten that revision"
            raise expired(f"no data: {forgotten}, and no tape has {subject.resource}")
        query = await asyncio.to_thread(functions.wanted, subject, objects, spec)
        moment = None if past is None else past.moment
        evidence = await self._collector.collect(subject, objects, query, access, past=moment)
        if functions.wanted_more is not None:
            more = await asyncio.to_thread(functions.wanted_more, evidence, spec)
            if more is not None:
                evidence = await self._collector.collect_more(evidence, more, past=moment)
        answer = msgspec.to_builtins(await asyncio.to_thread(functions.answer, evidence, spec, self._kept))
        unknown = objects.gaps() if isinstance(objects, TapedObjects) else ()
        gaps = [*(answer.get("gaps") or _gaps(evidence.gaps)), *_gaps((*past_gaps, *unknown))]
        current = () if past is None else (CachedObjects(self._core.cache),)
        hidden = await asyncio.to_thread(hidden_from, evidence, *current)
        return {
            "metadata": {"name": name, "namespace": namespace_of_answer(subject.namespace)},
            "status": hidden.value({**answer, **_source(past), **({"gaps": gaps} if gaps else {})}),
        }

    async def _at(self, spec: Spec) -> tuple[Spec, PastState | None, tuple[Gap, ...]]:
        """The question with its moment as a revision or a time, and the state of that moment. Raises 400,
        410."""
        if not spec.at:
            return spec, None, ()
        wanted = wanted_moment(spec.at, now_ns=self._core.outside.clock.now_ns())
        if wanted.time_ns:
            spec = msgspec.structs.replace(spec, at=micro_timestamp(wanted.time_ns))
        try:
            past = await self._past.state(wanted)
        except ApiError as error:
            if error.code != 410 or not isinstance(spec, TimelineSpec):
                raise
            # A timeline is made of records; the objects only tell which belong to it.
            return spec, None, (Gap("objects", f"{error.message}; those of now were used"),)
        return spec, past, past.gaps

    async def _subject(self, call: Call, spec: Spec, access: Access) -> tuple[str, ObjectRef]:
        """The name of the answer, and the object that the user asks about and may get. Raises 400, 403."""
        if isinstance(spec, CouplingSpec) and spec.controller:
            return f"controller.{spec.controller}", ObjectRef("", "", "")
        if isinstance(spec, ExplanationSpec) and spec.view == "stuck":
            return await self._stuck(spec, access)
        kind, subject = asked_object(self._core.registry, spec.subject, call.namespace)
        await access.require(kind, subject)
        return f"{kind.singular or kind.kind.lower()}.{subject.name}", subject

    async def _stuck(self, spec: ExplanationSpec, access: Access) -> tuple[str, ObjectRef]:
        """What is stuck in a namespace is for who may get its pods. Without a name, the answer contains the
        namespaces that the user may read."""
        namespace = spec.subject.name
        if namespace:
            pods = kind_named(self._core.registry, "pods")
            await access.require(pods, ObjectRef("pods", namespace, ""))
        return f"namespace.{namespace}".rstrip("."), ObjectRef("namespaces", "", namespace)

    # Decisions.

    async def _get_decision(self, call: Call, access: Access) -> Response:
        name = call.target.name
        objects = CachedObjects(self._core.cache)
        query = RecordQuery(decisions=(name,))
        records, gaps = await self._collector.records(objects, query)
        if not records:  # Perhaps an agent's: an id does not say of which node, so all of them are asked.
            nodes = nodes_with_agents(objects)[:AGENTS_ASKED_MAX]
            records, gaps = await self._collector.records(objects, query, nodes=nodes)
        allowed = [
            record
            for record in await self._allowed(records, access)
            if namespace_of_answer(record.kept.decision.subject.namespace) == call.namespace
        ]
        if not allowed:
            raise unavailable(_no_data(gaps)) if gaps else not_found(call.kind.resource, name)
        visible = await self._visible_parts(objects, access, allowed)
        return self._one(call, decision_object(allowed[0], visible, call.kind.api_version))

    async def _list_decisions(self, call: Call, access: Access) -> Response:
        await self._core.catch_up()
        objects = CachedObjects(self._core.cache)
        limit = min(parse_limit(call.request) or DECISIONS_SHOWN, DECISIONS_SHOWN_MAX)
        records: dict[str, Recorded] = {}
        warnings: list[str] = []
        for query in _list_queries(call, limit):
            nodes = await asyncio.to_thread(_agents_of_list, objects, query, call.namespace)
            asked = nodes[:AGENTS_ASKED_MAX]
            listed, gaps = await self._collector.records(objects, query, nodes=asked)
            records |= {record.kept.decision.id: record for record in listed}
            warnings += [f"no data from the {gap.source}: {gap.why}" for gap in gaps]
            if len(asked) < len(nodes):
                warnings.append(_NOT_ASKED.format(all=len(nodes), asked=len(asked)))
        ordered = sorted(records.values(), key=lambda record: record.kept.decision.time_ns)
        allowed = await self._allowed(ordered, access)
        visible = await self._visible_parts(objects, access, allowed)
        for warning in dict.fromkeys(warnings):
            call.warn(visible.hidden.text(warning))
        version = call.kind.api_version
        shown = _selected(call, [decision_object(record, visible, version) for record in allowed])
        return self._list(call, shown[-limit:])

    async def _allowed(self, records: Sequence[Recorded], access: Access) -> list[Recorded]:
        """Decisions about objects that the user may get."""
        allowed = []
        for record in records:
            subject = record.kept.decision.subject
            kind = self._core.registry.by_resource(subject.resource)
            if kind is not None and await access.may_get(kind, subject.namespace, subject.name):
                allowed.append(record)
        return allowed

    async def _visible_parts(
        self, objects: Objects, access: Access, records: Sequence[Recorded]
    ) -> VisibleParts:
        evidence = Evidence(
            subject=ObjectRef("", "", ""),
            objects=objects,
            decisions=tuple(records),
            may_read_nodes=await access.may_read_nodes(),
            readable=await access.readable(objects),
        )
        hidden = await asyncio.to_thread(hidden_from, evidence)
        return VisibleParts(evidence.may_read_nodes, evidence.readable, hidden)

    # Forms of answers.

    def _one(self, call: Call, obj: Obj, *, status: int = 200) -> Response:
        now_ns = self._core.outside.clock.now_ns()
        return response_forms.unstored(call.kind, obj, call.form, now_ns=now_ns, status=status)

    def _list(self, call: Call, objs: list[Obj]) -> Response:
        now_ns, meta = self._core.outside.clock.now_ns(), {"resourceVersion": str(self._core.cache.reached)}
        if call.form.shape:
            listed = response_forms.shaped(call.kind, objs, call.form, now_ns=now_ns, list_meta=meta)
        else:
            head = {"kind": call.kind.list_kind, "apiVersion": call.kind.api_version, "metadata": meta}
            listed = {**head, "items": objs}
        return Response(status=200, body=encode_json(listed))


def question_kind(kind: Kind) -> str:
    """As this server names it: to a cluster that it is attached to, the same kinds are of another group."""
    return f"{kind.plural}.{GROUP}"


def _source(past: PastState | None) -> Obj:
    """Of what moment the answer is, and from where."""
    if past is None:
        return {}
    moment, tapes = past.moment, {"tapes": list(past.tapes)} if past.source == TAPE else {}
    time = micro_timestamp(moment.time_ns)
    return {"asOf": {"revision": moment.revision, "time": time, "source": past.source, **tapes}}


def _gaps(gaps: Sequence[Gap]) -> list[Obj]:
    return [{"source": gap.source, "why": gap.why} for gap in gaps]


def _no_data(gaps: Sequence[Gap]) -> str:
    return "; ".join(f"no data from the {gap.source}: {gap.why}" for gap in gaps)


def _list_queries(call: Call, limit: int) -> list[RecordQuery]:
    """The newest decisions; of one object where a field selector names it."""
    fields = dict(_equal_fields(call))
    name, resource = fields.get("spec.subject.name", ""), fields.get("spec.subject.resource", "")
    if id_ := fields.get("metadata.name", ""):
        return [RecordQuery(decisions=(id_,), reasons_of=0)]
    namespaces = _namespaces(call)
    if name and resource and None not in namespaces:
        refs = tuple(ObjectRef(resource, namespace or "", name) for namespace in namespaces)
        return [RecordQuery(objects=refs, newest=limit, reasons_of=0)]
    return [RecordQuery(namespace=namespace, newest=limit, reasons_of=0) for namespace in namespaces]


def _agents_of_list(objects: Objects, query: RecordQuery, namespace: str) -> list[str]:
    """Of one object, the right agent is asked anyhow."""
    return [] if query.objects else concerned_agents(objects, namespace)


def _namespaces(call: Call) -> list[str | None]:
    """Of the subjects. Decisions about objects without a namespace are in `fathom-system`."""
    if not call.namespace:
        return [None]
    return ["", call.namespace] if call.namespace == SYSTEM_NAMESPACE else [call.namespace]


def _equal_fields(call: Call) -> list[tuple[str, str]]:
    text = call.request.param("fieldSelector")
    terms = [term.replace("==", "=").partition("=") for term in text.split(",") if "!=" not in term]
    return [(name, value) for name, _, value in terms]


def _selected(call: Call, objs: list[Obj]) -> list[Obj]:
    try:
        labels = parse_label_selector(call.request.param("labelSelector"))
        fields = parse_field_selector(call.request.param("fieldSelector"))
    except ValueError as error:
        raise bad_request(str(error)) from None
    return [obj for obj in objs if labels.matches({}) and fields.matches(_field_of(call, obj))]


def _field_of(call: Call, obj: Obj) -> Callable[[str], str]:
    def field(path: str) -> str:
        if path not in {"metadata.name", "metadata.namespace", *call.kind.selectable}:
            raise bad_request(f"{path} is not a known field of decisions")
        return str(lookup(obj, *path.split(".")) or "")

    return field
