"""`fathom logs`: what containers have written."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec
from cyclopts import Parameter

from fathom.cli.api_server import ServerConnection
from fathom.cli.object_reference import duration_s
from fathom.cli.objects.answers import done
from fathom.cli.objects.options import Selector, one_object
from fathom.cli.objects.resources import Resource, Resources
from fathom.cli.places import Kubeconfig, Namespace, chosen_namespace, found_kubeconfig
from fathom.cli.problem import ANSWER_IS_NO, Problem
from fathom.cli.tables import natural
from fathom.terminal import say, say_document

Obj = dict[str, Any]

FOLLOWED_MAX = 5
TAIL_OF_MANY = 10
POD = "/api/v1/namespaces/{}/pods"


class _Log(msgspec.Struct, frozen=True):
    pod: str
    container: str
    path: str

    @property
    def prefix(self) -> str:
        return f"[pod/{self.pod}/{self.container}] "


def logs(
    *what: Annotated[
        str,
        Parameter(
            name="POD|KIND/NAME", help="A pod, or what owns pods, and a container: web-1; deployment/web"
        ),
    ],
    container: Annotated[str, Parameter(name=("--container", "-c"), help="Default: the pod's first.")] = "",
    all_containers: Annotated[bool, Parameter(negative=(), help="Every container of the pod.")] = False,
    selector: Selector = "",
    namespace: Namespace = "",
    follow: Annotated[
        bool, Parameter(name=("--follow", "-f"), negative=(), help="Go on with each new line.")
    ] = False,
    tail: Annotated[
        int, Parameter(help="The last lines only; -1: all. Default: all; with -l the last 10 of each.")
    ] = -2,
    since: Annotated[str, Parameter(help="Only lines of this time: 90s, 10m.")] = "",
    previous: Annotated[
        bool, Parameter(name=("--previous", "-p"), negative=(), help="Of the container before its restart.")
    ] = False,
    timestamps: Annotated[bool, Parameter(negative=(), help="With the time of each line.")] = False,
    prefix: Annotated[bool, Parameter(negative=(), help="With pod and container before each line.")] = False,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Print what containers have written, as they wrote it; on a terminal, without characters that it would
    obey.

    fathom logs deployment/web -f
    fathom logs -l app=web --tail=20 --prefix
    """
    server = ServerConnection(found_kubeconfig(kubeconfig))
    at = chosen_namespace(namespace, kubeconfig)
    lines = tail if tail >= -1 else TAIL_OF_MANY if selector else -1
    options: dict[str, str] = {
        "follow": "true" if follow else "",
        "previous": "true" if previous else "",
        "timestamps": "true" if timestamps else "",
        "tailLines": str(lines) if lines >= 0 else "",
        "sinceSeconds": str(max(1, round(duration_s(since, "--since")))) if since else "",
    }
    query = {name: value for name, value in options.items() if value}
    pods = pods_named(server, what, at, selector)
    chosen = container or (what[1] if len(what) == 2 and "/" not in what[1] else "")
    wanted = [log for pod in pods for log in _logs_of(pod, at, query, container=chosen, every=all_containers)]
    if follow and len(wanted) > 1:
        return _follow(server, wanted, prefixed=prefix)
    for log in wanted:
        for line in _lines(server, log, follow=follow):
            _print(line, log.prefix if prefix else "")
    return 0


def pods_named(server: ServerConnection, what: Sequence[str], namespace: str, selector: str) -> list[Obj]:
    """A pod, or one of those that an object owns, or all with these labels. Raises Problem."""
    if selector:
        if what:
            raise Problem("give a name or -l LABELS, not both")
        pods = _selected(server, namespace, selector)
        if not pods:
            say(f"No resources found in {namespace} namespace.", err=True)
        return pods
    if not what or len(what) > 2:
        raise Problem("name a pod, or what owns pods: fathom logs web-1, fathom logs deployment/web")
    if "/" not in what[0]:
        path = f"{POD.format(namespace)}/{what[0]}"
        return [done(*server.request("GET", path), path)]
    resource, name = one_object(what[:1], Resources(server), "deployment/web")
    path = resource.path(namespace, name)
    owner = done(*server.request("GET", path), path)
    if resource.kind == "Pod":
        return [owner]
    pods = _selected(server, namespace, selector_of(owner, resource))
    if not pods:
        raise Problem(f"{resource.label}/{name} has no pods", exit_code=ANSWER_IS_NO)
    if len(pods) > 1:
        say(f"Found {len(pods)} pods, using pod/{pods[0]['metadata']['name']}", err=True)
    return pods[:1]


def selector_of(owner: Obj, resource: Resource) -> str:
    """The labels of its pods, as a query. Raises Problem."""
    selector = (owner.get("spec") or {}).get("selector") or {}
    terms = [f"{name}={value}" for name, value in (selector.get("matchLabels") or {}).items()]
    for each in selector.get("matchExpressions") or ():
        values = f"({','.join(each.get('values') or ())})"
        terms.append(
            {
                "In": f"{each['key']} in {values}",
                "NotIn": f"{each['key']} notin {values}",
                "Exists": each["key"],
                "DoesNotExist": f"!{each['key']}",
            }[each["operator"]]
        )
    if resource.kind == "Service":
        terms = [f"{name}={value}" for name, value in selector.items()]
    if not terms:
        raise Problem(f"a {resource.kind} selects no pods: name a pod")
    return ",".join(terms)


def _selected(server: ServerConnection, namespace: str, selector: str) -> list[Obj]:
    """Running pods first."""
    path = f"{POD.format(namespace)}?{urlencode({'labelSelector': selector})}"
    pods: list[Obj] = done(*server.request("GET", path), path).get("items") or []
    return sorted(pods, key=lambda pod: (_phase(pod) != "Running", natural(pod["metadata"]["name"])))


def _phase(pod: Obj) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def _logs_of(
    pod: Obj, namespace: str, query: dict[str, str], *, container: str, every: bool
) -> Iterator[_Log]:
    spec, name = pod.get("spec") or {}, str(pod["metadata"]["name"])
    names = [str(each["name"]) for each in spec.get("containers") or ()]
    initial = [str(each["name"]) for each in spec.get("initContainers") or ()]
    if container and container not in {*names, *initial}:
        listed = ", ".join([*names, *(f"{each} (init)" for each in initial)])
        raise Problem(f"pod {name} has no container {container!r}; it has {listed}", exit_code=ANSWER_IS_NO)
    if not container and not every and len(names) > 1:
        say(f'Defaulted container "{names[0]}" out of: {", ".join(names)}', err=True)
    for each in [container] if container else [*initial, *names] if every else names[:1]:
        asked = urlencode({"container": each, **query})
        yield _Log(name, each, f"{POD.format(namespace)}/{name}/log?{asked}")


def _lines(server: ServerConnection, log: _Log, *, follow: bool) -> Iterator[bytes]:
    """Raises Problem."""
    if follow:
        yield from server.lines(log.path, seconds=None, accept="*/*")
        return
    status, body = server.raw("GET", log.path, accept="*/*")
    if status != 200:
        try:
            answer = msgspec.json.decode(body, type=dict)
        except msgspec.DecodeError:
            answer = {}
        done(status, answer, log.path)
    yield from body.splitlines(keepends=True)


def _follow(server: ServerConnection, wanted: Sequence[_Log], *, prefixed: bool) -> int:
    """Several at once, line by line."""
    if len(wanted) > FOLLOWED_MAX:
        raise Problem(f"{len(wanted)} containers are too many to follow: at most {FOLLOWED_MAX}")
    printing = threading.Lock()
    problems: list[Problem] = []

    def follow(log: _Log) -> None:
        try:
            for line in server.lines(log.path, seconds=None, accept="*/*"):
                with printing:
                    _print(line, log.prefix if prefixed else "")
        except Problem as problem:
            problems.append(problem)

    threads = [threading.Thread(target=follow, args=(log,), daemon=True) for log in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    return 0


def _print(line: bytes, prefix: str) -> None:
    """As it is, for a file or another program; on a terminal, without characters that it would obey."""
    if sys.stdout.isatty():
        text = line.decode(errors="replace").removesuffix("\n")
        say_document(prefix + text.expandtabs())
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(prefix.encode() + line)
    sys.stdout.buffer.flush()
