"""The tools that propose. A proposal is an object that the API server stores as the caller's, and makes wait
until another person has approved it: `spec.requestedThrough` (see `kinds/approval.py`)."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from fathom.cli.api_server import ServerConnection
from fathom.cli.ask.explanations import OWN_KINDS
from fathom.cli.problem import Problem
from fathom.cli.steer.override_actions import now_ns
from fathom.cli.steer.override_text import show_lines
from fathom.cli.steer.runbook import awaited
from fathom.cli.steer.runbook_approval import proposal_lines
from fathom.cli.steer.runbooks import connected, draft_of, find_runbook
from fathom.kinds.runbook_run import RunbookRun
from fathom.kinds.shape import read
from fathom.mcp import arguments as given
from fathom.mcp.caller import Caller
from fathom.mcp.marked import Answer
from fathom.mcp.questions import API_VERSION, override_object, without_managed_fields
from fathom.model.objects import Obj, lookup
from fathom.seams.outside import live
from fathom.steer.conditions import Conditions

DOES_NOT_WAIT = (
    "nothing was written: this API server would not make the proposal wait for a person, so it is no fathom"
    " or an older one"
)


def propose_override(caller: Caller, asked: given.Override) -> Answer:
    obj = override_object(caller, asked)
    obj["spec"]["requestedThrough"] = caller.through
    created = _proposed(caller, "scheduleroverrides", obj)
    meta = created["metadata"]
    command = f"fathom override approve {meta['name']} -n {meta['namespace']}"
    head = [*_waits(str(lookup(created, "status", "author")), command), ""]
    return Answer([*head, *show_lines(created, now_ns=now_ns())], without_managed_fields(created))


def propose_runbook(caller: Caller, asked: given.ProposeRunbook) -> Answer:
    namespace = asked.namespace or caller.namespace
    draft: RunbookRun = awaited(_draft(caller, namespace, asked))
    plain = msgspec.json.decode(msgspec.json.encode(draft))
    created = _proposed(caller, "runbookruns", {"apiVersion": API_VERSION, "kind": "RunbookRun", **plain})
    run = read(RunbookRun, created)
    command = f"fathom runbook approve {run.metadata.name} -n {namespace}"
    then = f"Then a person carries it out with: fathom runbook resume {run.metadata.name} -n {namespace}"
    return Answer(
        [*_waits(run.status.author, command), then, "", *proposal_lines(run)], without_managed_fields(created)
    )


async def _draft(caller: Caller, namespace: str, asked: given.ProposeRunbook) -> RunbookRun:
    async with connected(caller.server) as api:
        runbook = await find_runbook(api, namespace, asked.runbook)
    Conditions(runbook.spec)  # Before anything is written: every expression compiles.
    name = asked.name or f"{asked.runbook}-{live().ids.suffix()}"
    return draft_of(
        runbook, namespace, name, asked.parameters, asked.reason, requested_through=caller.through
    )


def _waits(author: str, command: str) -> list[str]:
    return [
        f"Proposed as {author}. Nothing is in force: it waits for a person other than {author}.",
        f"That person approves it with: {command}",
    ]


def _proposed(caller: Caller, plural: str, obj: Obj) -> Obj:
    """The object as it was stored. A dry run shows first that the server makes it wait: one that does not
    know the field would carry it out at once."""
    server = ServerConnection(caller.server)
    namespace = quote(str(obj["metadata"]["namespace"]), safe="")
    path = f"{OWN_KINDS}/namespaces/{namespace}/{plural}?fieldValidation=Strict"
    planned = _posted(server, f"{path}&dryRun=All", obj)
    if lookup(planned, "status", "approval", "required") is not True:
        raise Problem(DOES_NOT_WAIT)
    return _posted(server, path, obj)


def _posted(server: ServerConnection, path: str, obj: Obj) -> Obj:
    code, answer = server.request("POST", path, obj)
    if code not in {200, 201}:
        raise Problem(str(answer.get("message") or f"the API server answered with HTTP {code}"))
    return answer
