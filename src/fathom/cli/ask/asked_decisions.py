"""Decisions that an API server lists, as the journals of a data directory have them: for `fathom decisions`
where there is no data directory."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec

from fathom.cli.api_server import Refused, ServerConnection
from fathom.cli.ask.explanations import ANSWERS_NO_QUESTIONS, ASK_KINDS, OWN_KINDS, lacks_kind
from fathom.cli.objects.answers import done
from fathom.cli.objects.resources import Resource, Resources
from fathom.cli.places import chosen_namespace, found_kubeconfig, observer_of
from fathom.cli.problem import Problem
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.decision import Decision, KeptDecision, Outcome
from fathom.model.times import moment_ns

if TYPE_CHECKING:
    from pathlib import Path

Obj = dict[str, Any]

LISTED_MAX = 5000  # As many as a server lists; where the objects are chosen here, fewer would miss some.


class Wanted(msgspec.Struct, frozen=True):
    kind: str  # As users write it; '' for all.
    name: str
    namespace: str | None  # None: of all namespaces.
    limit: int


def ask_decisions(wanted: Wanted, kubeconfig: Path | None) -> list[KeptDecision]:
    """Oldest first; all that the user may see. Raises Problem."""
    server = ServerConnection(found_kubeconfig(kubeconfig))
    resource = Resources(server).find(wanted.kind) if wanted.kind else None
    namespace = wanted.namespace
    if namespace is None and resource is not None and wanted.name:
        # Decisions about objects without a namespace are in that of the system.
        namespace = chosen_namespace("", kubeconfig) if resource.namespaced else SYSTEM_NAMESPACE
    try:
        items = _listed(server, namespace, resource, wanted)
    except Refused as refused:
        if refused.code != 403 or namespace is not None:
            raise
        items = _listed(server, chosen_namespace("", kubeconfig), resource, wanted)
    return [kept_decision(item) for item in items][-wanted.limit :]


def _listed(
    server: ServerConnection, namespace: str | None, resource: Resource | None, wanted: Wanted
) -> list[Obj]:
    fields = {"spec.subject.name": wanted.name, "spec.subject.resource": resource and resource.full_name}
    selector = ",".join(f"{field}={value}" for field, value in fields.items() if value)
    query = urlencode({"limit": LISTED_MAX if selector else wanted.limit, "fieldSelector": selector})
    where = f"/namespaces/{namespace}" if namespace else ""
    items = _items(server, OWN_KINDS, f"{where}/decisions?{query}")
    if items is None:
        observer = observer_of(server.url)
        if observer is not None:
            return _listed(ServerConnection(observer), namespace, resource, wanted)
        items = _items(server, ASK_KINDS, f"{where}/decisions?{query}")
    if items is None:
        raise Problem(ANSWERS_NO_QUESTIONS)
    return items


def _items(server: ServerConnection, group: str, path: str) -> list[Obj] | None:
    """None: the server does not know the kind. Raises Problem."""
    status, answer = server.request("GET", f"{group}{path}")
    if status == 404 or (status == 403 and lacks_kind(server, group, "decisions")):
        return None
    items: list[Obj] = done(status, answer, f"{group}{path}").get("items") or []
    return items


def kept_decision(obj: Obj) -> KeptDecision:
    """A Decision of the API as a journal has it. What the user may not see is empty."""
    id_, spec, status = obj["metadata"]["name"], dict(obj["spec"]), obj.get("status") or {}
    spec.pop("object", None)
    seen = {kind: _snake(versions) for kind, versions in (spec.pop("seen", None) or {}).items()}
    cause = {name: value for name, value in (spec.pop("cause", None) or {}).items() if name != "text"}
    head = {"id": id_, "time_ns": _time_ns(spec), "seen": seen, "cause": cause}
    outcomes = [_outcome(id_, outcome) for outcome in status.get("outcomes") or ()]
    return KeptDecision(msgspec.convert({**head, **_snake(spec)}, Decision), tuple(outcomes))


def _outcome(id_: str, outcome: Obj) -> Outcome:
    fields = {"id": id_, "time_ns": _time_ns(outcome), **_snake(outcome)}
    if "object" in fields:
        fields["object"] = {"namespace": "", "name": "", **fields["object"]}
    return msgspec.convert(fields, Outcome)


def _time_ns(fields: Obj) -> int:
    return moment_ns(fields.get("time")) or 0


def _snake(fields: Obj) -> Obj:
    """Fields of the API as journals name them: queuedMs -> queued_ms. `time` has become `time_ns`."""
    return {
        re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name): value
        for name, value in fields.items()
        if name != "time"
    }
