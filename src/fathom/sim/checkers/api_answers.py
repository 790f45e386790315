"""API servers' answers match the store: objects, lists of one revision, watches without gaps.

No answer is older than what any client had received from any server when the request arrived.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from fathom.client.events import decode_events
from fathom.kinds.binding_batch import BATCHES
from fathom.model.body import decode_json
from fathom.model.objects import Obj, lookup, metadata
from fathom.seams.seam import Ask
from fathom.sim.checkers.store_history import AskedWrite, StoreHistory, asked_of
from fathom.sim.checkers.watch_order import WatchOrder, path_of
from fathom.sim.world.invariants import Checker, Found, Seen
from fathom.sim.world.violation import Violation

if TYPE_CHECKING:
    from fathom.sim.world.engine import Engine
    from fathom.sim.world.network import Exchange
    from fathom.sim.world.servers import SimServer
    from fathom.sim.world.world import World


class AnswersAreTrue(Checker):
    """Checks answers as they leave the server: what the network does to them does not matter."""

    name = "API answers match the store"

    def __init__(self) -> None:
        self._newest_sent = 0  # The newest revision that any client was sent.
        self._floors: dict[Exchange, int] = {}  # Requests that have arrived -> `_newest_sent` at that time.
        self._streams: dict[Exchange, WatchOrder] = {}
        self._written: dict[int, tuple[Ask, int]] = {}  # The commits of requests not yet answered.
        self._pages: dict[str, tuple[int, str]] = {}  # Continue token -> revision, last path.

    def begin(self, world: World) -> None:
        self._engine: Engine = world.engine
        self._past = StoreHistory(world.engine.store.entries())
        world.engine.listeners.append(self)
        world.engine.stream_listeners.append(self)

    def commit(self, change: Seen) -> Found:
        self._past.record(change)
        if change.ask is not None:
            self._written[id(change.ask)] = (change.ask, change.revision)
        return None

    # Called by the network (`RequestListener`, `StreamListener`).

    def arrived(self, exchange: Exchange) -> None:
        self._floors[exchange] = self._newest_sent

    def answered(self, exchange: Exchange, status: int, body: Any) -> None:
        floor = self._floors.pop(exchange, 0)
        _, written = self._written.pop(id(exchange.ask), (None, 0))
        request = asked_of(exchange.ask.target)
        if status < 300 and written:
            is_batch = request is not None and request.resource == BATCHES
            revision = _newest_bound(body) if is_batch else written
            self._report(exchange, self._unseen_write(exchange, revision))
        if request is None or request.subresource or not self._past.knows(request.resource):
            return
        answer = decode_json(body) if isinstance(body, bytes) and body else body
        if exchange.ask.method == "GET":
            self._report(exchange, self._check_read(exchange, request, floor, status, answer))
        if status in {200, 201} and isinstance(answer, dict):
            self._newest_sent = max(self._newest_sent, _revision(answer))

    def _unseen_write(self, exchange: Exchange, revision: int) -> str | None:
        """The next request to the same server must find what was written."""
        server: SimServer = self._engine.processes[exchange.server].state
        reached = server.parts.core.cache.reached
        return (
            f"it committed revision {revision}, but its watch cache is at {reached}"
            if revision > reached
            else None
        )

    def told(self, exchange: Exchange, chunk: Any) -> None:
        stream = self._streams.get(exchange)
        if stream is None:
            return
        for event in decode_events((chunk,)):
            self._report(exchange, stream.take(event.type, event.obj))
            self._newest_sent = max(self._newest_sent, _revision(event.obj))

    def _report(self, exchange: Exchange, wrong: str | None) -> None:
        if wrong is not None:
            ask = exchange.ask
            message = f"{exchange.server} to {exchange.process.name}, {ask.method} {ask.target}: {wrong}"
            self._engine.broken(Violation(self.name, message, self._engine.since_s))

    # One answer.

    def _check_read(
        self, exchange: Exchange, request: AskedWrite, floor: int, status: int, answer: Any
    ) -> str | None:
        version = request.query.get("resourceVersion", "")
        floor = int(version) if version.isdigit() else floor
        if exchange.stream:
            if status == 200 and not request.is_odd and not request.name:
                self._streams[exchange] = WatchOrder(self._past, request, floor)
            return None
        if not isinstance(answer, dict):
            return None
        if request.name:
            return self._check_object(request, floor, status, answer)
        return self._check_list(request, floor, answer) if status == 200 and "items" in answer else None

    def _check_object(self, request: AskedWrite, floor: int, status: int, answer: Obj) -> str | None:
        life = self._past.life(request.resource, request.path)
        if status == 404 and lookup(answer, "details", "name") == request.name:
            return (
                f"answered 404, but the object existed at revision {floor} and since"
                if _exists_since(life, floor)
                else None
            )
        if status != 200 or answer.get("kind") in {"Table", "PartialObjectMetadata"}:
            return None
        revision = _revision(answer)
        at = bisect_left(life, revision, key=itemgetter(0))  # A lease has a long one: not all of it is read.
        if life[at : at + 1] != [(revision, True)]:
            return f"returned the object at revision {revision}, which the store never had"
        newer = [later for later, _ in life[at + 1 : at + 2]]
        return (
            f"returned the object at revision {revision}, but {newer[0]} had been sent before"
            if _already_sent(newer, floor)
            else None
        )

    def _check_list(self, request: AskedWrite, floor: int, answer: Obj) -> str | None:
        revision, token = _revision(answer), str(metadata(answer).get("continue") or "")
        after = ""
        if page := request.query.get("continue", ""):
            if page not in self._pages:
                return None  # The token came with a 410: the list goes on from no single revision.
            previous, after = self._pages[page]
            if previous != revision:
                return f"returned a page of revision {revision}, but the page before was of {previous}"
        elif revision < floor:
            return f"returned a list of revision {revision}, but {floor} had been sent before"
        if request.is_odd:
            return None
        revisions = self._past.at(request.resource, revision, request.wants)
        wanted = [(path, revisions[path]) for path in sorted(revisions) if path > after]
        listed = [(path_of(item), _revision(item)) for item in answer["items"]]
        if token:
            self._pages[token] = (revision, listed[-1][0] if listed else after)
        return _differs(wanted, listed, revision, whole=not token)


def _newest_bound(body: Any) -> int:
    """The newest revision that the answer to a batch of bindings acknowledges. It may say of some pods that
    their outcome is unknown: it does not acknowledge those, whatever came of them."""
    batch = decode_json(body) if isinstance(body, bytes) else body
    return max((int(result.get("revision") or 0) for result in batch["results"]), default=0)


def _exists_since(life: list[tuple[int, bool]], floor: int) -> bool:
    """Whether the object existed at the revision, and ever since."""
    after = bisect_right(life, floor, key=itemgetter(0))
    return after > 0 and all(exists for _, exists in life[after - 1 :])


def _already_sent(newer: list[int], floor: int) -> bool:
    return bool(newer) and newer[0] <= floor


def _differs(
    wanted: list[tuple[str, int]], listed: list[tuple[str, int]], revision: int, *, whole: bool
) -> str | None:
    expected = wanted if whole else wanted[: len(listed)]
    if listed == expected and (listed or whole):
        return None
    diff = sorted(set(listed) ^ set(expected))
    return f"the list of revision {revision} differs from the store's objects: {diff[:3] or 'wrong order'}"


def _revision(obj: Obj) -> int:
    """0 where it has none, as in the answer to a deletion."""
    return int(metadata(obj).get("resourceVersion") or 0)
