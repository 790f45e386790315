"""What `fathom top` asks: what is stuck, all about the open workload, and the breakers. Each in a thread.

A question costs the server more than an object: it is asked again only when something changed, never sooner
than after two seconds, and less often where the answer takes long.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Thread
from typing import TypeVar
from urllib.parse import quote

from fathom.cli.api_server import NoAnswerNow, ServerConnection
from fathom.cli.ask.explanations import NAMED_KINDS, ApiServer, Question
from fathom.cli.ask.top import seen as what
from fathom.cli.ask.top.feed import Feed
from fathom.cli.ask.top.lines import Subject
from fathom.cli.ask.top.seen import Answer, BreakerSeen
from fathom.cli.ask.top.workload_lines import HISTORY, OBJECT, TIMELINE, WHY
from fathom.cli.ask.top.workload_view import WorkloadAnswers, owned_sets
from fathom.cli.ask.why import is_of
from fathom.cli.problem import Problem
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.objects import Obj, metadata
from fathom.model.processes import PREFIX, PROCESS
from fathom.steer.metrics_text import samples

T = TypeVar("T")

PAUSE_S = 2.0
PAUSE_FACTOR = 4  # At most a fifth of the time is spent on answers.
ANYWAY_S = 20.0  # Sentences have times in them.
BREAKERS_S = 5.0
TIMELINE_SINCE = "15m"
SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/endpointslices"
REPLICA_SETS = "/apis/apps/v1/namespaces/{}/replicasets"


# What is stuck.


def ask_stuck(server: ApiServer, namespace: str) -> tuple[Answer, ...]:
    """Raises Problem."""
    question = Question(kind="namespace", name=namespace, namespace=namespace, view="stuck")
    return tuple(server.explain(question).get("items") or ())


def answer_stuck(feed: Feed, server: ApiServer) -> None:
    """Raises NoAnswerNow."""
    namespace = feed.namespace
    try:
        feed.answered_stuck(namespace, ask_stuck(server, namespace), "")
    except NoAnswerNow:
        raise
    except Problem as error:
        feed.answered_stuck(namespace, (), str(error))


# Breakers.


def answer_breakers(feed: Feed, server: ServerConnection) -> None:
    """From the metrics of each process of the control plane. Raises NoAnswerNow."""
    status, answer = server.request("GET", f"{SLICES}?labelSelector={quote(PROCESS, safe='')}")
    if status != 200:
        feed.answered_breakers((), _not_allowed(status, "list endpointslices in fathom-system", answer))
        return
    processes = [
        str(metadata(item).get("name") or "").removeprefix(PREFIX) for item in answer.get("items") or ()
    ]
    breakers: list[BreakerSeen] = []
    notes: list[str] = []
    for process in processes:
        status, raw = server.raw("GET", f"/metrics/{quote(process, safe='')}", accept="text/plain")
        if status == 200:
            breakers += breakers_in(raw.decode("utf-8", "replace"), process)
        elif status == 403:
            notes = ["breakers: not allowed to read metrics"]
            break
        else:
            notes.append(f"breakers: no metrics of {process}")
    feed.answered_breakers(tuple(breakers), "; ".join(notes))


def breakers_in(page: str, process: str) -> list[BreakerSeen]:
    """Pure."""
    return [
        BreakerSeen(str(sample["labels"].get("component") or process), process, sample["labels"]["state"])
        for sample in samples(page, "fathom_breaker_state", {})
        if sample["value"] == 1 and "state" in sample["labels"]
    ]


def _not_allowed(status: int, verb: str, answer: Answer) -> str:
    return f"not allowed to {verb}" if status == 403 else str(answer.get("message") or f"HTTP {status}")


# One workload.


def ask_workload(server: ApiServer, subject: Subject) -> WorkloadAnswers:
    """Explanation, timeline, the object and its ReplicaSets; what is refused is noted. Raises NoAnswerNow."""
    kind = subject.kind.partition(".")[0]
    notes: dict[str, str] = {}
    explanation = _noted(notes, WHY, lambda: _explanation(server, kind, subject))
    obj = _noted(notes, OBJECT, lambda: _object(server, kind, subject))
    sets = _noted(notes, HISTORY, lambda: _replica_sets(server, kind, subject, obj))
    timeline = _noted(notes, TIMELINE, lambda: _timeline(server, kind, subject))
    return WorkloadAnswers(
        explanation=explanation, timeline=timeline or (), obj=obj, replica_sets=sets or (), notes=notes
    )


def _noted(notes: dict[str, str], name: str, ask: Callable[[], T]) -> T | None:
    try:
        return ask()
    except NoAnswerNow:
        raise
    except Problem as error:
        notes[name] = str(error)
        return None


def _explanation(server: ApiServer, kind: str, subject: Subject) -> Answer:
    namespace = subject.namespace or "default"
    return server.explain(Question(kind=kind, name=subject.name, namespace=namespace))


def _object(server: ApiServer, kind: str, subject: Subject) -> Obj | None:
    path = next((path for name, path in NAMED_KINDS.items() if is_of(kind, f"{name}s")), "")
    if not path:
        return None
    place = f"/namespaces/{quote(subject.namespace, safe='')}" if subject.namespace else ""
    status, answer = server.request("GET", f"{path.format(place)}/{quote(subject.name, safe='')}")
    if status == 404:
        return None  # The explanation says so.
    return _items_or_problem(status, answer, f"get {kind}")


def _replica_sets(server: ApiServer, kind: str, subject: Subject, obj: Obj | None) -> tuple[Obj, ...]:
    if obj is None or not is_of(kind, "deployments"):
        return ()
    status, answer = server.request("GET", REPLICA_SETS.format(quote(subject.namespace, safe="")))
    return owned_sets(obj, _items_or_problem(status, answer, "list replicasets").get("items") or ())


def _items_or_problem(status: int, answer: Obj, verb: str) -> Obj:
    if status == 429 or status >= 500:
        raise NoAnswerNow(str(answer.get("message") or f"HTTP {status}"))
    if status != 200:
        raise Problem(_not_allowed(status, verb, answer))
    return answer


def _timeline(server: ApiServer, kind: str, subject: Subject) -> tuple[str, ...]:
    from fathom.cli.ask.timeline import fetch_timeline  # noqa: PLC0415  # See the package's docstring.
    from fathom.explain.timeline.lines import as_text, gap_lines, lines_of, time_of_day  # noqa: PLC0415

    asked = {"subject": {"kind": kind, "name": subject.name}, "since": TIMELINE_SINCE}
    timeline = fetch_timeline(server, subject.namespace or SYSTEM_NAMESPACE, asked)
    return (*as_text(lines_of(timeline), show_time=time_of_day), *gap_lines(timeline))


# The threads.


class Asker:
    """Asks again and again, in a thread."""

    def __init__(
        self, feed: Feed, name: str, ask: Callable[[ApiServer], None], *, version: Callable[[], object],
        anyway_s: float = ANYWAY_S,
    ) -> None:  # fmt: skip
        self._feed = feed
        self._name = name
        self._ask = ask
        self._version = version  # The question is asked again when this value changes.
        self._anyway_s = anyway_s
        self._woken = Event()

    def start(self) -> None:
        Thread(target=self._run, name=f"ask {self._name}", daemon=True).start()

    def wake(self) -> None:
        self._woken.set()

    def _run(self) -> None:
        server = ApiServer(self._feed.kubeconfig)
        while True:
            version, began_s = self._version(), time.monotonic()
            self._woken.clear()
            try:
                self._ask(server)
            except NoAnswerNow as error:  # Or late: only followers tell whether the connection is lost.
                self._feed.note(self._name, f"not up to date: {error}")
                version = object()  # Ask again soon.
            except Exception as error:  # A bug here must not end the page: its section says it.
                self._feed.note(self._name, f"no data: {type(error).__name__}: {error}")
            self._wait(version, max(PAUSE_S, PAUSE_FACTOR * (time.monotonic() - began_s)))

    def _wait(self, version: object, pause_s: float) -> None:
        """At least the pause, unless somebody has opened another page; then until something has changed."""
        anyway_s = time.monotonic() + self._anyway_s
        if self._woken.wait(pause_s):
            return
        while self._version() == version and time.monotonic() < anyway_s:
            if self._woken.wait(0.5):
                return


def stuck_asker(feed: Feed) -> Asker:
    return Asker(
        feed,
        what.STUCK,
        lambda server: answer_stuck(feed, server),
        version=lambda: (feed.namespace, feed.changes(feed.namespace)),
    )


def breaker_asker(feed: Feed) -> Asker:
    ask: Callable[[ApiServer], None] = lambda server: answer_breakers(feed, server)  # noqa: E731
    return Asker(feed, what.BREAKERS, ask, version=lambda: 0, anyway_s=BREAKERS_S)
