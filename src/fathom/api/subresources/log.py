"""`pods/log`: a container's output, requested from the agent that runs it."""

from __future__ import annotations

from fathom.api.agent_connections import LogAsk, address_of
from fathom.api.core import Call, Core
from fathom.api.request import Request, StreamResponse
from fathom.api.verbs.get import read
from fathom.model import causes
from fathom.model.errors import Cause, bad_request, invalid, unavailable
from fathom.model.objects import Key, Obj, lookup, metadata, uid_of
from fathom.model.times import SECOND_NS, micro_timestamp, moment_ns

PLAIN = "text/plain"


async def log(core: Core, call: Call) -> StreamResponse:
    pod = (await read(core, call)).body.obj
    name = str(metadata(pod)["name"])
    container = container_of(pod, call.request.param("container"))
    options = log_options(call.request, name, now_ns=core.outside.clock.now_ns())
    node = lookup(pod, "spec", "nodeName")
    if not node:
        raise bad_request(f"pod {name} does not have a host assigned")
    check_begun(pod, container, previous=call.request.flag("previous"))
    seen = core.cache.get("nodes", Key("", node))
    if seen is None:
        raise unavailable(f"node {node} of pod {name} no longer exists, and neither do its logs")
    ask = LogAsk(call.namespace, name, uid_of(pod), container, options)
    source = await core.agents.logs(address_of(seen.obj), ask)
    return StreamResponse(source=source, content_type=PLAIN)


def container_of(pod: Obj, requested: str) -> str:
    name = metadata(pod)["name"]
    init = [container["name"] for container in lookup(pod, "spec", "initContainers") or ()]
    main = [container["name"] for container in lookup(pod, "spec", "containers") or ()]
    if requested:
        if requested not in {*init, *main}:
            raise bad_request(f"container {requested} is not valid for pod {name}")
        return requested
    if len(main) == 1:
        return str(main[0])
    message = f"a container name must be specified for pod {name}, choose one of: [{' '.join(main)}]"
    if init:
        message += f" or one of the init containers: [{' '.join(init)}]"
    raise bad_request(message)


def check_begun(pod: Obj, container: str, *, previous: bool) -> None:
    """A container that has not started has no log; the pod's status says why."""
    name = metadata(pod)["name"]
    for field in ("containerStatuses", "initContainerStatuses"):
        for status in lookup(pod, "status", field) or ():
            if status.get("name") != container:
                continue
            waiting = lookup(status, "state", "waiting")
            if previous and not lookup(status, "lastState", "terminated"):
                raise bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
            if waiting and not status.get("containerID"):
                reason = waiting.get("message") or waiting.get("reason") or ""
                raise bad_request(f'container "{container}" in pod "{name}" is waiting to start: {reason}')
            return
    raise bad_request(f'container "{container}" in pod "{name}" is not available')


def log_options(request: Request, pod: str, *, now_ns: int) -> tuple[tuple[str, str], ...]:
    """The options under the names of the agent's endpoint; a 422 where they make no sense."""
    problems: list[Cause] = []
    options = {name: "true" for name in ("follow", "previous", "timestamps") if request.flag(name)}
    for wire, ours in (("tailLines", "tail"), ("limitBytes", "bytes_max")):
        if text := request.param(wire):
            least = 0 if wire == "tailLines" else 1
            number = _number(text, wire, problems, least=least)
            options[ours] = str(number)
    if seconds := request.param("sinceSeconds"):
        number = _number(seconds, "sinceSeconds", problems, least=1)
        options["since"] = micro_timestamp(now_ns - number * SECOND_NS)
    if since := request.param("sinceTime"):
        if "since" in options:
            detail = "at most one of `sinceTime` or `sinceSeconds` may be specified"
            problems.append(causes.forbidden("sinceTime", detail))
        else:
            options["since"] = _moment(since)
    if stream := request.param("stream"):
        if stream not in {"All", "Stdout", "Stderr"}:
            problems.append(causes.not_supported("stream", stream, ("All", "Stderr", "Stdout")))
        elif stream != "All":
            options["stream"] = stream.lower()
    if problems:
        raise invalid(group="", kind="PodLogOptions", name=pod, causes=problems)
    return tuple(sorted(options.items()))


def _moment(text: str) -> str:
    """In UTC and with a fraction, as in logs, where times are compared as text."""
    since_ns = moment_ns(text)
    try:
        if since_ns is not None:
            return micro_timestamp(since_ns)
    except (ValueError, OverflowError):
        pass  # A year outside of the calendar.
    raise bad_request(f"sinceTime must be a time of RFC 3339, not {text!r}")


def _number(text: str, field: str, problems: list[Cause], *, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        raise bad_request(f"{field} must be a number, not {text!r}") from None
    if number < least:
        problems.append(causes.invalid(field, number, f"must be greater than or equal to {least}"))
    return max(number, least)
