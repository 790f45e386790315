"""Pure functions that translate between the store protocol and etcd's messages.

A store's keys are under one prefix, which ends in '/', so that several stores can share an etcd.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import grpc
from aetcd.rpc import kv_pb2, rpc_pb2

from fathom.model.body import Body
from fathom.store.protocol import (
    BadCommit,
    Change,
    Committed,
    Compacted,
    Conflict,
    Entry,
    Expect,
    Outcome,
    Put,
    StoreUnavailable,
    Unknown,
    Write,
)

OPERATIONS_MAX = 100  # etcd's default limit is 128; the design promises a hundred.

# A byte that UTF-8 never uses: greater than any key's next byte, so it ends a prefix's range, and the server
# may write a marker there that is no key.
_BEYOND = b"\xff"


class Keys:
    def __init__(self, prefix: str) -> None:
        self._prefix = prefix if prefix.endswith("/") else f"{prefix}/"
        self._skip = len(self._prefix.encode())

    def wire(self, key: str) -> bytes:
        return f"{self._prefix}{key}".encode()

    def end(self, prefix: str) -> bytes:
        return self.wire(prefix) + _BEYOND

    def marker(self, prefix: str) -> bytes:
        """A key whose only purpose is an event: watches of the prefix that see it have seen all before it."""
        return self.wire(prefix) + _BEYOND

    def watch_end(self, prefix: str) -> bytes:
        return self.marker(prefix) + b"\0"

    def ours(self, wire: bytes) -> str:
        return wire[self._skip :].decode()

    def entry(self, kv: Any) -> Entry:
        return Entry(self.ours(kv.key), Body(encoded=kv.value), kv.mod_revision, kv.create_revision)

    def entries(self, kvs: Iterable[Any]) -> list[Entry]:
        return [self.entry(kv) for kv in kvs if not is_marker(kv)]


def is_marker(kv: Any) -> bool:
    return bool(kv.key.endswith(_BEYOND))


def txn(keys: Keys, preconditions: Sequence[Expect], writes: Sequence[Write]) -> Any:
    """Compare every precondition; write, or else return the current entries."""
    if max(len(preconditions), len(writes)) > OPERATIONS_MAX:
        count = max(len(preconditions), len(writes))
        raise BadCommit(f"etcd accepts at most {OPERATIONS_MAX} operations in a transaction, not {count}")
    return rpc_pb2.TxnRequest(
        compare=[
            rpc_pb2.Compare(
                result=rpc_pb2.Compare.EQUAL,
                target=rpc_pb2.Compare.MOD,
                key=keys.wire(expect.key),
                mod_revision=expect.revision,
            )
            for expect in preconditions
        ],
        success=[_operation(keys, write) for write in writes],
        failure=[
            rpc_pb2.RequestOp(request_range=rpc_pb2.RangeRequest(key=keys.wire(expect.key)))
            for expect in preconditions
        ],
    )


def _operation(keys: Keys, write: Write) -> Any:
    key = keys.wire(write.key)
    if isinstance(write, Put):
        return rpc_pb2.RequestOp(request_put=rpc_pb2.PutRequest(key=key, value=write.body.encoded))
    return rpc_pb2.RequestOp(request_delete_range=rpc_pb2.DeleteRangeRequest(key=key))


def outcome(keys: Keys, preconditions: Sequence[Expect], response: Any) -> Outcome:
    if response.succeeded:
        return Committed(response.header.revision)
    current: dict[str, Entry | None] = {}
    for expect, answer in zip(preconditions, response.responses, strict=True):
        kvs = answer.response_range.kvs
        current[expect.key] = keys.entry(kvs[0]) if kvs else None
    return Conflict(current, response.header.revision)


# Errors that etcd returns before it proposes anything to its cluster.
_REFUSED = frozenset(
    {
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.OUT_OF_RANGE,
    }
)

# Also the answer to the first transaction beyond the quota, which etcd applies before it refuses all others.
_NO_SPACE = "space exceeded"


def is_full(details: str) -> bool:
    return _NO_SPACE in details


# With the alarm CORRUPT on, etcd carries nothing out.
_CORRUPT = "corrupt cluster"

# Answers to a request without the token that the cluster wants. etcd gives them before anything else.
_STALE_TOKEN = ("invalid auth token", "revision of auth store is old", "revision in header is old")
_NO_USER = "user name is empty"


def is_stale_token(details: str) -> bool:
    return any(text in details for text in _STALE_TOKEN)


def failed_commit(code: grpc.StatusCode, details: str) -> Unknown:
    """The outcome of a transaction that was sent and failed. Any error that is not certainly a refusal may
    mean that it was committed: a lost connection, a timeout, a change of leader."""
    if _NO_USER in details or _CORRUPT in details or is_stale_token(details):
        raise StoreUnavailable(f"etcd refuses the commit: {details}")
    if code == grpc.StatusCode.INVALID_ARGUMENT or "larger than max" in details:
        raise BadCommit(f"etcd refuses the commit: {details}")
    if code in _REFUSED and _NO_SPACE not in details:
        raise StoreUnavailable(f"etcd refuses the commit: {details}")
    return Unknown(f"etcd: {code.name}: {details}")


def failed_read(code: grpc.StatusCode, details: str, revision: int) -> Exception:
    """etcd does not say where its floor is, only that it is above the requested revision."""
    if code == grpc.StatusCode.OUT_OF_RANGE and "compacted" in details:
        return Compacted(revision + 1)
    return StoreUnavailable(f"etcd: {code.name}: {details}")


def is_future(code: grpc.StatusCode, details: str) -> bool:
    return code == grpc.StatusCode.OUT_OF_RANGE and "future" in details


def changes(keys: Keys, events: Iterable[Any]) -> tuple[Change, ...]:
    return tuple([_change(keys, event) for event in events if not is_marker(event.kv)])


def _change(keys: Keys, event: Any) -> Change:
    kv, previous = event.kv, None
    if event.HasField("prev_kv") and event.prev_kv.mod_revision:
        previous = keys.entry(event.prev_kv)
    entry = keys.entry(kv) if event.type == kv_pb2.Event.PUT else None
    return Change(keys.ours(kv.key), kv.mod_revision, entry, previous)


def markers(keys: Keys, prefixes: Iterable[str]) -> Any:
    puts = [rpc_pb2.PutRequest(key=keys.marker(prefix)) for prefix in prefixes]
    return rpc_pb2.TxnRequest(success=[rpc_pb2.RequestOp(request_put=put) for put in puts])


def reports_true_progress(version: str) -> bool:
    """Older servers may report progress before they have sent the events that precede it
    (etcd-io/etcd#15220); kube-apiserver checks for the same versions."""
    try:
        major, minor, patch = (int(part) for part in version.partition("-")[0].split("."))
    except ValueError:
        return False
    return (major, minor, patch) >= (3, 5, 13) or ((major, minor) == (3, 4) and patch >= 31)
