"""`pods/binding` and `bindingbatches`: how a pod gets its node, for one pod and for many.

Requests are decoded and answered here; `api/binding` checks and commits them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fathom.api.binding import checks, requests
from fathom.api.binding.binder import Binder
from fathom.api.binding.requests import BindingAsk, BindingDone, BindingFailed, BindingUnknown, Refusal
from fathom.api.core import Call, Core, WriteVerdicts
from fathom.api.request import RequestTarget, Response
from fathom.api.verbs import bodies
from fathom.kinds.scheduler_override import USED_OVERRIDES
from fathom.kinds.scheduling_policy import POLICY
from fathom.kinds.shape import API_VERSION, GROUP, VERSION
from fathom.kube.definitions.kind import Kind
from fathom.kube.rules.metadata import annotation_causes, label_causes
from fathom.model import binding_checks
from fathom.model.body import encode_json
from fathom.model.errors import (
    ApiError,
    Cause,
    bad_request,
    conflict,
    invalid,
    not_found,
    timed_out,
    too_many_requests,
)
from fathom.model.tenancy import TENANT
from fathom.model.well_known import DECISION_ANNOTATION

BINDING = ("", "v1", "Binding")
BATCH = (GROUP, VERSION, "BindingBatch")

# Some seconds of work; a client with more pods sends several batches.
BATCH_ITEMS_MAX = 1024

DECISION_CHARS_MAX = 128  # An annotation may be long; an id is not.

# The fields of a pod that a binding changes, for the audit log. Each condition by its type: of a pod that is
# created and bound within a second, only this tells which of the two writes made the pod Bound.
CHANGED = (
    "metadata.annotations",
    "spec.nodeName",
    *(f"status.conditions[type={type_}]" for type_ in sorted(checks.OVER)),
)


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}


class _Target(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    kind: str = ""
    uid: str = ""
    resource_version: str = ""


class Binding(msgspec.Struct, frozen=True):
    target: _Target
    metadata: _Meta = _Meta()


class BindingBatch(msgspec.Struct, frozen=True):
    items: tuple[BindingAsk, ...]


async def bind(core: Core, call: Call, binder: Binder) -> Response:
    bodies.check_options(call.request)
    ask = decode_binding(call, bodies.as_json(core, call, BINDING))
    [answer] = await binder.bind([ask], call.caller, dry_run=call.dry_run)
    if not isinstance(answer, BindingDone):
        raise refused(ask, answer)
    call.audit.name, call.audit.uid = ask.name, answer.uid
    call.audit.revision, call.audit.changed = answer.revision, CHANGED
    call.audit.decision = _decision_of(ask)
    success = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return Response(status=201, body=encode_json(success))


async def bind_batch(core: Core, call: Call, binder: Binder, asks: Sequence[BindingAsk]) -> Response:
    answers = await binder.bind(asks, call.caller, dry_run=call.dry_run)
    if not call.dry_run:
        kind = core.registry.by_resource("pods")
        assert kind is not None
        call.parts += [
            _written(call, kind, ask, answer)
            for ask, answer in zip(asks, answers, strict=True)
            if isinstance(answer, BindingDone)
        ]
    results = [requests.wire(ask, answer) for ask, answer in zip(asks, answers, strict=True)]
    return Response(
        status=200, body=encode_json({"kind": "BindingBatch", "apiVersion": API_VERSION, "results": results})
    )


def _written(call: Call, kind: Kind, ask: BindingAsk, answer: BindingDone) -> Call:
    """One pod's part of the call, for its audit entry."""
    target = RequestTarget(
        verb="create",
        path=call.target.path,
        version="v1",
        plural="pods",
        namespace=ask.namespace,
        name=ask.name,
        subresource="binding",
    )
    audit = WriteVerdicts(
        name=ask.name,
        uid=answer.uid,
        revision=answer.revision,
        changed=CHANGED,
        decision=_decision_of(ask),
        break_glass=call.audit.break_glass,
    )
    return msgspec.structs.replace(call, kind=kind, target=target, audit=audit, parts=[])


def _decision_of(ask: BindingAsk) -> str:
    """A request for many pods has no single decision: each item names its own."""
    return ask.annotations.get(DECISION_ANNOTATION, "")[:DECISION_CHARS_MAX]


def decode_batch(core: Core, call: Call) -> tuple[BindingAsk, ...]:
    bodies.check_options(call.request)
    try:
        batch = msgspec.json.decode(bodies.as_json(core, call, BATCH), type=BindingBatch)
    except (msgspec.DecodeError, RecursionError) as error:
        raise bad_request(f"the body could not be read as a BindingBatch: {error}") from None
    causes: list[Cause] = []
    if len(batch.items) > BATCH_ITEMS_MAX:
        why = f"Too many: {len(batch.items)}: must have at most {BATCH_ITEMS_MAX} items"
        causes.append(Cause("items", "FieldValueTooMany", why))
    for index, ask in enumerate(batch.items):
        causes += _ask_causes(ask, f"items[{index}]")
    if causes:
        raise invalid(group=GROUP, kind="BindingBatch", name="", causes=causes)
    return batch.items


def _ask_causes(ask: BindingAsk, field: str) -> list[Cause]:
    missing = [name for name in ("namespace", "name", "node") if not getattr(ask, name)]
    problems = [Cause(f"{field}.{name}", "FieldValueRequired", "Required value") for name in missing]
    return problems + _map_causes(ask, f"{field}.")


def _map_causes(ask: BindingAsk, at: str) -> list[Cause]:
    problems = label_causes(ask.labels, f"{at}labels") if ask.labels else []
    if TENANT in ask.labels:
        why = "a binding may not change the tenant of a pod"
        problems.append(Cause(f"{at}labels[{TENANT}]", "FieldValueForbidden", f"Forbidden: {why}"))
    return problems + (annotation_causes(ask.annotations, f"{at}annotations") if ask.annotations else [])


def decode_binding(call: Call, raw: bytes) -> BindingAsk:
    try:
        binding = msgspec.json.decode(raw, type=Binding)
    except (msgspec.DecodeError, RecursionError) as error:
        raise bad_request(f"the body could not be read as a Binding: {error}") from None
    if binding.metadata.name not in {"", call.target.name}:
        raise bad_request("name in URL does not match name in Binding object")
    ask = _ask(call, binding)
    causes = []
    if not binding.target.name:
        causes.append(Cause("target.name", "FieldValueRequired", "Required value"))
    if binding.target.kind not in {"", "Node"}:
        why = f'Unsupported value: "{binding.target.kind}": supported values: "Node", "<empty>"'
        causes.append(Cause("target.kind", "FieldValueNotSupported", why))
    causes += _map_causes(ask, "metadata.")
    if causes:
        raise invalid(group="", kind="Binding", name=call.target.name, causes=causes)
    return ask


def _ask(call: Call, binding: Binding) -> BindingAsk:
    """A Binding has no fields for the inputs of a decision; its annotations carry them."""
    meta, annotations = binding.metadata, binding.metadata.annotations
    overrides = annotations.get(USED_OVERRIDES, "")
    return BindingAsk(
        namespace=call.namespace,
        name=call.target.name,
        node=binding.target.name,
        uid=meta.uid,
        node_uid=binding.target.uid,
        node_revision=binding.target.resource_version,
        annotations=annotations,
        labels=meta.labels,
        policy=annotations.get(POLICY, ""),
        overrides=tuple(name.strip() for name in overrides.split(",") if name.strip()),
        reservation=annotations.get(requests.RESERVATION, ""),
    )


def refused(ask: BindingAsk, answer: Refusal | BindingUnknown | BindingFailed) -> ApiError:
    """The error of a single binding. Only a failed check is a conflict."""
    if isinstance(answer, BindingFailed):
        return answer.error
    if isinstance(answer, BindingUnknown):
        return timed_out(answer.cause)
    if answer.check == binding_checks.CONTENDED:
        return too_many_requests(answer.message)
    if answer.check == binding_checks.POD_GONE and not answer.revision:
        error = not_found("pods", ask.name)
    else:
        error = conflict("pods/binding", ask.name, answer.message)
    error.details = {
        **error.details,
        "causes": [{"reason": answer.check, "message": answer.message}],
        **({"currentRevision": str(answer.revision)} if answer.revision else {}),
    }
    return error
