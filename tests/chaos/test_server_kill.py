"""`kill -9` of a server under load, again and again: every acknowledged write is there after the restart, no
partial one, the revision never goes back, and watches resume without loss."""

from __future__ import annotations

import itertools
import random
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.chaos.victim import GONE, Client, Victim, eventually, victim

MAPS = "/api/v1/namespaces/default/configmaps"
MINE = "labelSelector=chaos"
WRITERS = 6
NAMES_EACH = 4
PARTS = ("a", "b", "c")
FILLING = "x" * 2000  # Over several pages of the file, so that half of an object would be seen.


class Wrote(msgspec.Struct, frozen=True):
    """One write as its writer knows it. `token` None is a deletion; `revision` 0: nobody answered."""

    name: str
    token: str | None
    revision: int = 0


class Writer(threading.Thread):
    """Creates, changes and deletes its own few objects until the server is gone. Keeps what was answered."""

    def __init__(self, client: Client, rng: random.Random, number: int, known: dict[str, str | None]) -> None:
        super().__init__(daemon=True)
        self._client, self._rng = client, rng
        self._names = [f"w{number}-{at}" for at in range(NAMES_EACH)]
        self._tokens = (f"{number}-{rng.getrandbits(64):x}-{count}" for count in itertools.count())
        self.known = {name: known.get(name) for name in self._names}
        self.acknowledged: list[Wrote] = []
        self.unanswered: Wrote | None = None
        self.wrong: str = ""

    def run(self) -> None:
        try:
            while not self.wrong:
                self._write()
        except GONE:
            pass  # What was under way then is `unanswered`.

    def _write(self) -> None:
        name = self._rng.choice(self._names)
        before = self.known[name]
        gone = before is not None and self._rng.random() < 0.25
        wrote = Wrote(name, None if gone else next(self._tokens))
        self.unanswered = wrote
        answer = self._send(wrote, before)
        if answer.status not in {200, 201}:
            self.wrong = f"{wrote} after {before}: {answer}"
            return
        self.known[name] = wrote.token
        self.acknowledged.append(msgspec.structs.replace(wrote, revision=_revision(answer.obj)))
        self.unanswered = None

    def _send(self, wrote: Wrote, before: str | None) -> Any:
        path = f"{MAPS}/{wrote.name}"
        if wrote.token is None:
            return self._client.delete(path)
        data = dict.fromkeys(PARTS, f"{wrote.token} {FILLING}")
        if before is None:
            meta = {"name": wrote.name, "labels": {"chaos": "yes"}}
            return self._client.post(MAPS, {"metadata": meta, "data": data})
        if self._rng.random() < 0.5:
            return self._client.patch(path, {"data": data})
        current = self._client.get(path)
        return self._client.put(path, {**current.obj, "data": data})


def _revision(obj: Any) -> int:
    """0 of a deletion, which is answered with a Status."""
    return int(obj["metadata"].get("resourceVersion", 0))


class Follower(threading.Thread):
    """Watches through all deaths, resuming from the last revision it saw."""

    def __init__(self, server: Victim, start: int) -> None:
        super().__init__(daemon=True)
        self._server, self.last = server, start
        self.events: list[tuple[int, str, str | None]] = []  # (revision, name, token)
        self.wrong = ""
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.is_set() and not self.wrong:
            try:
                with self._server.client(timeout_s=2) as client:
                    for event in client.watch(f"{MAPS}?{MINE}&resourceVersion={self.last}"):
                        self._take(event)
            except GONE:
                time.sleep(0.02)

    def _take(self, event: Any) -> None:
        obj = event["object"]
        if event["type"] == "ERROR":
            self.wrong = str(event)
            return
        self.last = int(obj["metadata"]["resourceVersion"])
        token = None if event["type"] == "DELETED" else _token(obj)
        self.events.append((self.last, obj["metadata"]["name"], token))


def _token(obj: Any) -> str:
    """The one token that all parts of a whole object carry."""
    [whole] = {obj["data"][part] for part in PARTS}
    token, _, filling = whole.partition(" ")
    assert filling == FILLING
    return str(token)


class Ledger:
    """Everything that was ever acknowledged, against what is found after each death."""

    def __init__(self) -> None:
        self.known: dict[str, str | None] = {}
        self.revision = 0  # The newest that anybody was told of.
        self.acknowledged: list[Wrote] = []

    def settle(self, writers: list[Writer], client: Client) -> None:
        assert [writer.wrong for writer in writers if writer.wrong] == []
        listed = client.get(f"{MAPS}?{MINE}")
        found = {obj["metadata"]["name"]: _token(obj) for obj in listed.obj["items"]}
        for writer in writers:
            self.acknowledged += writer.acknowledged
            self.known |= writer.known
            unanswered = writer.unanswered
            if unanswered and found.get(unanswered.name) == unanswered.token:
                self.known[unanswered.name] = unanswered.token  # It had happened.
        assert found == {name: token for name, token in self.known.items() if token is not None}
        seen = max((wrote.revision for wrote in self.acknowledged), default=0)
        self.revision = max(self.revision, seen)
        assert listed.revision >= self.revision
        self.revision = listed.revision

    def check(self, follower: Follower) -> None:
        """Every acknowledged write was seen once, at its revision, and in order."""
        revisions = [revision for revision, _, _ in follower.events]
        assert revisions == sorted(set(revisions))
        at = {revision: (name, token) for revision, name, token in follower.events}
        for wrote in self.acknowledged:
            if wrote.revision:
                assert at.get(wrote.revision) == (wrote.name, wrote.token)
        last = {name: token for _, name, token in follower.events}
        assert last == {name: self.known[name] for name in last}
        assert {name for name, token in self.known.items() if token is not None} <= set(last)


def kill_under_load(server: Victim, rng: random.Random, ledger: Ledger, seed: str) -> None:
    writers = [
        Writer(server.client(), random.Random(f"{seed} {number}"), number, ledger.known)
        for number in range(WRITERS)
    ]
    for writer in writers:
        writer.start()
    eventually(lambda: any(writer.acknowledged or writer.wrong for writer in writers), seconds=30)
    time.sleep(rng.random() * 0.4)
    server.kill()
    for writer in writers:
        writer.join(20)
        assert not writer.is_alive()
    server.start()
    with server.client() as client:
        ledger.settle(writers, client)


def run_story(directory: Path, seed: int, rounds: int) -> Ledger:
    rng, ledger = random.Random(seed), Ledger()
    with victim(directory) as server:
        with server.client() as client:
            start = client.get(f"{MAPS}?{MINE}").revision
        followers = [Follower(server, start) for _ in range(2)]
        for follower in followers:
            follower.start()
        for number in range(rounds):
            kill_under_load(server, rng, ledger, f"{seed} {number}")
        with server.client() as client:
            meta = {"name": "last", "labels": {"chaos": "yes"}}
            data = dict.fromkeys(PARTS, f"end {FILLING}")
            last = client.post(MAPS, {"metadata": meta, "data": data})
        assert last.revision > ledger.revision
        ledger.known["last"] = "end"
        for follower in followers:
            _finish(follower, last.revision)
            ledger.check(follower)
    return ledger


def _finish(follower: Follower, revision: int) -> None:
    deadline = time.monotonic() + 20
    while follower.last < revision and not follower.wrong:
        assert time.monotonic() < deadline, f"the watch stayed at {follower.last}, not {revision}"
        time.sleep(0.02)
    follower.over.set()
    assert follower.wrong == ""


def test_a_server_killed_three_times_under_load_loses_nothing(tmp_path: Path) -> None:
    ledger = run_story(tmp_path, seed=1, rounds=3)
    assert len(ledger.acknowledged) >= 3


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_a_server_killed_a_hundred_times_under_load_loses_nothing(tmp_path: Path) -> None:
    ledger = run_story(tmp_path, seed=2, rounds=100)
    assert len(ledger.acknowledged) >= 100
