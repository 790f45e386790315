"""Objects as they were at an earlier revision, from a tape: what its lists and watches contained up to then.

    ASK      GET /api/v1/pods?watch=true&sendInitialEvents=true    a list or a watch of a whole kind begins
    CHUNK    events, bookmarks ──up to the revision──> the kind's objects as they were
    REPLY    a page of a list

No code of the process runs: a tape has its inputs, and an object's `resourceVersion` says whether it is part
of the wanted state. A kind is complete where its watch went on beyond the revision. Kinds of which the
process followed only a part (a namespace, a selector) are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import parse_qs, urlsplit

import msgspec

from fathom.model.times import SECOND_NS
from fathom.record.tape import ASK, Record, Reel, birth_of
from fathom.seams.seam import Input

INITIAL_EVENTS_END = b'"k8s.io/initial-events-end"'
SELECTORS = frozenset({"labelSelector", "fieldSelector"})
# Some watches get a bookmark a minute. One that has told nothing for longer is over.
SILENT_NS_MAX = 90 * SECOND_NS
REDACTED = "redacted"  # In place of what tapes leave out: the contents of Secrets.


class Moment(msgspec.Struct, frozen=True):
    """A revision, and when the process had received it."""

    revision: int
    time_ns: int


class PastKind(msgspec.Struct, frozen=True):
    """The objects of one kind."""

    revision: int  # The state is surely that of this revision.
    objects: list[msgspec.Raw]


class TapeState(msgspec.Struct, frozen=True, kw_only=True):
    """What one tape tells about a moment."""

    tape: str  # 'scheduler'
    oldest: Moment | None = None  # The first state that it has; None: it has none.
    moment: Moment | None = None  # None: the tape does not contain it.
    run: int = 0
    kinds: dict[str, PastKind] = {}
    problem: str = ""  # Why it could not be read.


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    resourceVersion: str = "0"  # As on the wire.


class _Head(msgspec.Struct):
    metadata: _Meta


class _EventHead(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _ListMeta(msgspec.Struct):
    resourceVersion: str = "0"
    token: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    kind: str = ""
    apiVersion: str = ""
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


_decode_events = msgspec.json.Decoder(_EventHead).decode_lines
_decode_head = msgspec.json.Decoder(_Head).decode
_decode_list = msgspec.json.Decoder(_List).decode

Contents = dict[tuple[str, str], bytes]


class _Request(msgspec.Struct):
    """A list or a watch of a whole kind."""

    resource: str
    watches: bool
    lists: bool  # A page of a list; or a watch whose initial events are not complete.


class _Kind(msgspec.Struct):
    contents: Contents | None = None  # None: no list is complete yet.
    reached: int = 0  # Everything up to this revision is in `contents`, as far as it is wanted.
    is_done: bool = False  # What follows is beyond the wanted revision.
    listing: Contents = {}  # A list that is being read.
    # Changes at the newest revision: one write may change several objects, so others may follow.
    newest: list[tuple[tuple[str, str], bytes | None]] = []


class PastReader:
    """Takes the records of one run, in order. `revision`: the wanted one; 0 is the newest."""

    def __init__(self, *, revision: int = 0) -> None:
        self.wanted = revision
        self.newest = 0  # The newest revision that the process had received.
        self.time_ns = 0  # Of the last input, by the process's wall clock.
        self.reached_ns = 0  # When the wanted revision was reached; 0: not yet.
        self.first: Moment | None = None  # The first complete list.
        self._kinds: dict[str, _Kind] = {}
        self._epoch_ns = 0
        self._requests: dict[int, _Request] = {}

    @property
    def is_done(self) -> bool:
        """Nothing that follows can change the state at the wanted revision."""
        if not self.reached_ns:
            return False
        return self.time_ns > self.reached_ns + SILENT_NS_MAX or all(
            kind.is_done for kind in self._kinds.values()
        )

    def kinds(self) -> dict[str, PastKind]:
        return {
            resource: PastKind(kind.reached, [msgspec.Raw(obj) for _, obj in sorted(kind.contents.items())])
            for resource, kind in sorted(self._kinds.items())
            if kind.contents is not None
        }

    def take(self, record: Record) -> None:
        if record.kind == ASK:
            self._ask(record)
            return
        if record.kind == Input.START:
            self._epoch_ns = birth_of(record).epoch_ns
        elif record.kind == Input.CLOCK:
            self._epoch_ns = int.from_bytes(record.payload, "little", signed=True)
        self.time_ns = self._epoch_ns + record.now_ns
        request = self._requests.get(record.number)
        if request is None:
            return
        if record.kind == Input.CHUNK:
            self._events(request, record.payload)
        elif record.kind == Input.REPLY:
            del self._requests[record.number]
            if record.status == 200:
                self._page(self._kinds[request.resource], record.payload)
        elif record.kind == Input.ENDED or (record.kind == Input.OPENED and record.status != 200):
            del self._requests[record.number]

    def _ask(self, record: Record) -> None:
        request, is_first = _request_of(record.payload)
        if request is None:
            return
        self._requests[record.number] = request
        kind = self._kinds.setdefault(request.resource, _Kind())
        if is_first:
            kind.listing = {}

    # Lists.

    def _page(self, kind: _Kind, payload: bytes) -> None:
        page = _decode_list(payload)
        for item in page.items or ():
            meta = _decode_head(item).metadata
            kind.listing[meta.namespace, meta.name] = _with_kind(item, page)
        if not page.metadata.token:
            self._listed(kind, int(page.metadata.resourceVersion or 0))

    def _listed(self, kind: _Kind, revision: int) -> None:
        self._saw(revision)
        if self.first is None:
            self.first = Moment(revision, self.time_ns)
        # A list that is newer than the wanted state says nothing about it.
        if not kind.is_done and (not self.wanted or revision <= self.wanted):
            kind.contents, kind.reached, kind.newest = kind.listing, revision, []
        kind.is_done = kind.is_done or bool(self.wanted and revision >= self.wanted)
        kind.listing = {}

    # Watches.

    def _events(self, request: _Request, chunk: bytes) -> None:
        kind = self._kinds[request.resource]
        for event in _decode_events(chunk):
            if event.type == "ERROR":
                continue
            meta = _decode_head(event.object).metadata
            revision = int(meta.resourceVersion or 0)
            if event.type == "BOOKMARK":
                self._bookmark(kind, request, event.object, revision)
            elif request.lists:
                kind.listing[meta.namespace, meta.name] = bytes(event.object)
            else:
                self._change(kind, event, meta, revision)

    def _bookmark(self, kind: _Kind, request: _Request, obj: msgspec.Raw, revision: int) -> None:
        if request.lists and INITIAL_EVENTS_END in bytes(obj):
            request.lists = False
            self._listed(kind, revision)
            return
        self._saw(revision)
        self._advance(kind, revision)

    def _change(self, kind: _Kind, event: _EventHead, meta: _Meta, revision: int) -> None:
        self._saw(revision)
        self._advance(kind, revision - 1)
        if kind.contents is not None and not kind.is_done:
            obj = None if event.type == "DELETED" else bytes(event.object)
            kind.newest.append(((meta.namespace, meta.name), obj))

    def _advance(self, kind: _Kind, revision: int) -> None:
        """Everything up to this revision has been received."""
        if kind.contents is None or kind.is_done or revision <= kind.reached:
            return
        for key, obj in kind.newest:
            if obj is None:
                kind.contents.pop(key, None)
            else:
                kind.contents[key] = obj
        kind.newest = []
        kind.is_done = bool(self.wanted and revision >= self.wanted)
        kind.reached = self.wanted if kind.is_done else revision

    def _saw(self, revision: int) -> None:
        self.newest = max(self.newest, revision)
        if self.wanted and not self.reached_ns and self.newest >= self.wanted:
            self.reached_ns = self.time_ns


def _request_of(payload: bytes) -> tuple[_Request | None, bool]:
    """A list or watch of a whole kind, None for other requests; and whether a list begins with it."""
    method, _, rest = payload.split(b"\n", 1)[0].decode(errors="replace").partition(" ")
    url = urlsplit(rest.rpartition(" ")[0])
    resource, query = _resource_of(url.path), parse_qs(url.query)
    if method != "GET" or not resource or SELECTORS & query.keys():
        return None, False
    watches = query.get("watch", [""])[0] in {"true", "1"}
    lists = not watches or query.get("sendInitialEvents", [""])[0] == "true"
    return _Request(resource, watches, lists), lists and "continue" not in query


def _resource_of(path: str) -> str:
    """'/apis/apps/v1/deployments' -> 'deployments.apps'; '' for one object, and for one namespace's."""
    match path.split("/"):
        case ["", "api", "v1", plural]:
            return plural
        case ["", "apis", group, _, plural]:
            return f"{plural}.{group}"
        case _:
            return ""


def _with_kind(item: msgspec.Raw, page: _List) -> bytes:
    """Lists omit the kind of their items."""
    fields = msgspec.json.decode(item, type=dict[str, msgspec.Raw])
    kind = {"kind": page.kind.removesuffix("List"), "apiVersion": page.apiVersion}
    missing = {name: msgspec.Raw(msgspec.json.encode(text)) for name, text in kind.items() if text}
    return msgspec.json.encode({**missing, **fields})


# Tapes.


def oldest_moment(reels: Iterable[Reel]) -> Moment | None:
    """The first state that a tape has."""
    return next((first for reel in reels if (first := first_moment(reel)) is not None), None)


def first_moment(reel: Reel) -> Moment | None:
    """The first complete list of a run."""
    reader = PastReader()
    for record in _records(reel):
        reader.take(record)
        if reader.first is not None:
            break
    return reader.first


def moment_at(reels: Iterable[Reel], time_ns: int) -> Moment | None:
    """What the process had received at a time. None where the tape does not contain that time."""
    for reel in reversed(list(reels)):
        first = first_moment(reel)
        if first is None or first.time_ns > time_ns:
            continue
        reader = PastReader()
        for record in _records(reel):
            newest = reader.newest
            reader.take(record)
            if reader.time_ns > time_ns:
                return Moment(newest, time_ns)
        return None
    return None


def state_at(tape: str, reels: Iterable[Reel], revision: int) -> TapeState:
    """The objects at a revision, from the newest run that began before it."""
    runs = list(reels)
    oldest = oldest_moment(runs)
    for reel in reversed(runs):
        first = first_moment(reel)
        if first is None or first.revision > revision:
            continue
        reader = PastReader(revision=revision)
        for record in _records(reel):
            reader.take(record)
            if reader.is_done:
                break
        if not reader.reached_ns:
            break  # The run ended before.
        moment = Moment(revision, reader.reached_ns)
        return TapeState(tape=tape, oldest=oldest, moment=moment, run=reel.run, kinds=reader.kinds())
    return TapeState(tape=tape, oldest=oldest)


def _records(reel: Reel) -> Iterable[Record]:
    """Without those of segments that are dropped meanwhile."""
    try:
        yield from reel.records()
    except FileNotFoundError:
        return


def redacted(resource: str, obj: dict[str, object]) -> dict[str, object]:
    """An object of a tape, as it may be shown: where the tape left out a value, this is said."""
    if resource != "secrets":
        return obj
    hidden = {
        name: dict.fromkeys(values, REDACTED)
        for name in ("data", "stringData")
        if isinstance(values := obj.get(name), dict)
    }
    return {**obj, **hidden}
