"""The state of an earlier revision follows from what lists and watches on a tape contained."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fathom.record.past_objects import (
    REDACTED,
    Moment,
    PastReader,
    TapeState,
    moment_at,
    redacted,
    state_at,
)
from fathom.record.redact import secret_data
from fathom.record.tape import DiskTape, reels
from fathom.seams.process import Birth
from fathom.seams.seam import Ask, Input

Obj = dict[str, Any]
EPOCH_NS = 1_767_225_600_000_000_000
SECOND_NS = 1_000_000_000
KINDS = {"pods": "/api/v1/pods", "quotas.fathom.dev": "/apis/fathom.dev/v1alpha1/quotas"}
State = dict[str, dict[str, Obj]]


def obj(name: str, revision: int) -> Obj:
    meta = {"name": name, "namespace": "default", "resourceVersion": str(revision)}
    return {"kind": "Thing", "apiVersion": "v1", "metadata": meta, "spec": {"at": revision}}


class History:
    """A store, and the truth about each of its revisions."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.revision = 1
        self.state: State = {kind: {} for kind in KINDS}
        self.states: dict[int, State] = {}
        self.events: list[tuple[int, str, str, Obj]] = []
        self._keep()

    def write(self) -> None:
        """One write of one or several objects of a kind, at one revision."""
        self.revision += 1
        kind = self.rng.choice(list(KINDS))
        for name in self.rng.sample([f"thing-{number}" for number in range(8)], self.rng.choice([1, 1, 3])):
            objects = self.state[kind]
            exists = name in objects
            if exists and self.rng.random() < 0.3:
                del objects[name]
                self.events.append((self.revision, kind, "DELETED", obj(name, self.revision)))
                continue
            objects[name] = obj(name, self.revision)
            self.events.append((self.revision, kind, "MODIFIED" if exists else "ADDED", objects[name]))
        self._keep()

    def _keep(self) -> None:
        self.states[self.revision] = {kind: dict(objects) for kind, objects in self.state.items()}


class Watcher:
    """A process whose tape is recorded: it lists and watches, in every way that caches use."""

    def __init__(self, tape: DiskTape, history: History) -> None:
        self.tape, self.history = tape, history
        self.number = self.now_ns = 0
        self.watches: dict[str, int] = {}
        self.sent: dict[str, int] = {}  # Kind -> the last revision that its watch has received.

    def start(self) -> None:
        birth = Birth(entry="a.b:c", seed="1", epoch_ns=EPOCH_NS + self.now_ns)
        self.since_ns = self.now_ns
        self._input(Input.START, 0, msgspec.json.encode(birth))
        for kind in KINDS:
            self.list(kind)

    def list(self, kind: str) -> None:
        self.history.rng.choice([self._watch_list, self._pages])(kind)
        self.sent[kind] = self.history.revision

    def _watch_list(self, kind: str) -> None:
        number = self._ask(f"{KINDS[kind]}?watch=true&sendInitialEvents=true&allowWatchBookmarks=true")
        self._input(Input.OPENED, number, b"", status=200)
        lines = [{"type": "ADDED", "object": each} for each in self.history.state[kind].values()]
        mark = {"k8s.io/initial-events-end": "true"}
        end = {"metadata": {"resourceVersion": str(self.history.revision), "annotations": mark}}
        for line in (*lines, {"type": "BOOKMARK", "object": end}):
            self._input(Input.CHUNK, number, msgspec.json.encode(line) + b"\n")
        self.watches[kind] = number

    def _pages(self, kind: str) -> None:
        objects = list(self.history.state[kind].values())
        token = ""
        while True:
            number = self._ask(f"{KINDS[kind]}?limit=3" + (f"&continue={token}" if token else ""))
            page, objects = objects[:3], objects[3:]
            token = "more" if objects else ""
            meta = {"resourceVersion": str(self.history.revision), **({"continue": token} if token else {})}
            body = {"kind": "ThingList", "apiVersion": "v1", "metadata": meta, "items": page}
            self._input(Input.REPLY, number, msgspec.json.encode(body), status=200)
            if not objects:
                break
        number = self._ask(f"{KINDS[kind]}?watch=true&resourceVersion={self.history.revision}")
        self._input(Input.OPENED, number, b"", status=200)
        self.watches[kind] = number

    def receive(self, kind: str) -> None:
        """Everything that has happened to the kind since, and most often a bookmark."""
        after = self.sent[kind]
        events = [
            {"type": what, "object": each}
            for revision, of, what, each in self.history.events
            if of == kind and revision > after
        ]
        if self.history.rng.random() < 0.7:
            bookmark = {"metadata": {"resourceVersion": str(self.history.revision)}}
            events.append({"type": "BOOKMARK", "object": bookmark})
        payload = b"".join(msgspec.json.encode(event) + b"\n" for event in events)
        self.sent[kind] = self.history.revision
        if payload:
            self._input(Input.CHUNK, self.watches[kind], payload)

    def noise(self) -> None:
        """Requests that are no list of a whole kind."""
        for target in (
            "/api/v1/namespaces/default/pods",
            "/api/v1/pods?fieldSelector=spec.nodeName%3Dn",
            "/api/v1/namespaces/default/pods/thing-1",
        ):
            number = self._ask(target)
            body = {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": [obj("decoy", 1)]}
            self._input(Input.REPLY, number, msgspec.json.encode(body), status=200)

    def _ask(self, target: str) -> int:
        self.number += 1
        self.tape.asked(self.number, Ask("GET", target), now_ns=self.now_ns - self.since_ns, checksum=1)
        return self.number

    def _input(self, kind: Input, number: int, payload: bytes, *, status: int = 0) -> None:
        self.now_ns += self.history.rng.randrange(SECOND_NS)
        at_ns = 0 if kind is Input.START else self.now_ns - self.since_ns
        if kind is Input.START:
            self.since_ns = self.now_ns
        self.tape.append(kind, number, now_ns=at_ns, status=status, checksum=1, payload=payload)


def recorded(directory: Path, seed: int) -> History:
    rng = random.Random(seed)
    history = History(rng)
    tape = DiskTape(directory)
    watcher = Watcher(tape, history)
    for _ in range(rng.randrange(5)):
        history.write()
    for _ in range(rng.choice([1, 3])):  # Incarnations, with writes between them that none has seen.
        watcher.start()
        for _ in range(rng.randrange(5, 30)):
            for _ in range(rng.randrange(4)):
                history.write()
            rng.choice([watcher.noise, *[lambda kind=kind: watcher.receive(kind) for kind in KINDS] * 3])()
            if rng.random() < 0.05:
                watcher.list(rng.choice(list(KINDS)))
        history.write()
    tape.close()
    return history


def objects_of(state: TapeState, kind: str) -> dict[str, Obj]:
    listed = [msgspec.json.decode(raw) for raw in state.kinds[kind].objects]
    return {each["metadata"]["name"]: each for each in listed}


@pytest.mark.parametrize("seed", range(40))
def test_each_kind_is_exactly_as_it_was_at_the_revision_that_the_tape_says(seed: int, tmp_path: Path) -> None:
    history = recorded(tmp_path, seed)
    runs = reels(tmp_path)
    complete = 0
    for revision in range(1, history.revision + 1):
        state = state_at("scheduler", runs, revision)
        for kind, past in state.kinds.items():
            assert past.revision <= revision
            assert objects_of(state, kind) == history.states[past.revision][kind], (revision, kind)
            complete += past.revision == revision
    assert complete > 5


def test_a_revision_before_the_first_list_is_not_on_the_tape_which_says_where_it_begins(
    tmp_path: Path,
) -> None:
    history = recorded(tmp_path, 4)
    runs = reels(tmp_path)
    oldest = state_at("scheduler", runs, history.revision).oldest
    assert oldest is not None
    before = state_at("scheduler", runs, oldest.revision - 1)
    assert (before.moment, before.kinds, before.oldest) == (None, {}, oldest)
    assert moment_at(runs, oldest.time_ns - 1) is None
    assert moment_at(runs, EPOCH_NS * 2) is None  # The tape ends before.


def test_a_time_has_the_newest_revision_that_the_process_had_received(tmp_path: Path) -> None:
    recorded(tmp_path, 7)
    runs = reels(tmp_path)
    reader, known = PastReader(), []
    for record in runs[-1].records():
        reader.take(record)
        known.append((reader.time_ns, reader.newest, reader.first is not None))
    for (time_ns, revision, has_list), (next_ns, _, _) in pairwise(known):
        if has_list and next_ns > time_ns:
            assert moment_at(runs, time_ns) == Moment(revision, time_ns)


def test_what_a_tape_leaves_out_of_secrets_reads_redacted() -> None:
    secret = {"metadata": {"name": "s", "resourceVersion": "3"}, "data": {"password": "aHVudGVyMg=="}}
    strip = secret_data("/api/v1/secrets?watch=true")
    assert strip is not None
    on_tape = msgspec.json.decode(strip(msgspec.json.encode(secret)))
    assert redacted("secrets", on_tape)["data"] == {"password": REDACTED}
    configured: dict[str, object] = {"metadata": {"name": "c"}, "data": {"color": "blue"}}
    assert redacted("configmaps", configured) == configured
