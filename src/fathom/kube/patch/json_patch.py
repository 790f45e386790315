"""JSON patch, RFC 6902: a list of operations, all or nothing.

A container is copied when it is first written to and then belongs to the patch, so that ten thousand
operations on one list copy it once. Two limits keep a small patch from making a huge document: how much
`copy` may add in total, and how deep a value may be nested.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from fathom.kube.definitions import parse, scalars
from fathom.model.body import encode_json
from fathom.model.errors import ApiError, bad_request

# kube-apiserver's limits.
OPERATIONS_MAX = 10_000
COPIED_BYTES_MAX = 3 * 1024 * 1024
# fathom's own: values in all that is moved. Twice as many as an object may have.
MOVED_MAX = 200_000

_is_index = re.compile(r"0|[1-9][0-9]{0,9}").fullmatch


class Operation(msgspec.Struct, frozen=True):
    op: str
    path: str
    source: str | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="from")
    value: Any = msgspec.UNSET


class _Inapplicable(Exception):
    """The patch is well formed, but does not apply to this document."""


_decode_operations = msgspec.json.Decoder(list[Operation]).decode


def read_operations(patch: bytes) -> list[Operation]:
    # Bodies nested too deeply or not JSON are refused here, with the same message as everywhere.
    try:
        read = parse.plain(patch)
        if not isinstance(read, list):
            kind = scalars.json_kind(read)
            raise bad_request(
                f"error decoding patch: json: cannot unmarshal {kind} into Go value of type []interface {{}}"
            )
        operations = _decode_operations(patch)
    except (parse.MalformedBody, msgspec.ValidationError) as error:
        raise bad_request(f"error decoding patch: {error}") from None
    if len(operations) > OPERATIONS_MAX:
        raise ApiError(
            413,
            "RequestEntityTooLarge",
            "Request entity too large: The allowed maximum operations in a JSON patch is "
            f"{OPERATIONS_MAX}, got {len(operations)}",
        )
    return operations


def apply_operations(document: Any, operations: Sequence[Operation]) -> Any:
    patched = _Document(document)
    for operation in operations:
        try:
            patched.apply(operation)
        except _Inapplicable as error:
            # kube-apiserver's message ends before the colon.
            raise ApiError(
                422,
                "Invalid",
                f"the server rejected our request due to an error in our request: {error}",
            ) from None
    return patched.root


class _Document:
    def __init__(self, root: Any) -> None:
        self.root = root
        # Containers made by this patch, by `id`: only these may be changed in place. The references keep the
        # ids from being used again.
        self._own: dict[int, Any] = {}
        self._copied_bytes = 0
        self._moved = 0  # Values that were moved, with those inside of them, counted at each move.

    def apply(self, operation: Operation) -> None:
        path = _steps(operation.path, "path")
        match operation.op:
            case "add":
                self._add(path, _value(operation), operation.path, "add")
            case "remove":
                self._remove(path, operation.path, "remove")
            case "replace":
                self._replace(path, _value(operation), operation.path)
            case "test":
                self._test(path, _value(operation), operation.path)
            case "move":
                self._move(operation, path)
            case "copy":
                self._copy(operation, path)
            case unknown:
                raise _Inapplicable(f"Unexpected kind: {unknown}")

    def _find(self, path: Sequence[str]) -> Any:
        value = self.root
        for step in path:
            if isinstance(value, dict) and step in value:
                value = value[step]
            elif isinstance(value, list) and _is_index(step) and int(step) < len(value):
                value = value[int(step)]
            else:
                raise KeyError(step)
        return value

    def _owned_at(self, path: Sequence[str]) -> Any:
        """The container at a path; it and every container above it are copied first, once."""
        self.root = container = self._make_own(self.root)
        for step in path:
            key = step if isinstance(container, dict) else int(step)
            container[key] = inner = self._make_own(container[key])
            container = inner
        return container

    def _make_own(self, container: Any) -> Any:
        if id(container) in self._own:
            return container
        copied = dict(container) if isinstance(container, dict) else list(container)
        self._own[id(copied)] = copied
        return copied

    def _parent(self, path: Sequence[str], missing: str) -> Any:
        """The container of the path's last step, copied so that it may be changed."""
        try:
            container = self._find(path[:-1])
        except KeyError:
            container = None
        if not isinstance(container, dict | list):
            raise _Inapplicable(f"{missing}: missing value")
        return self._owned_at(path[:-1])

    def _add(self, path: Sequence[str], value: Any, text: str, op: str) -> None:
        _check_depth(path, value, text)
        if not path:
            self.root = value
            return
        parent = self._parent(path, f'{op} operation does not apply: doc is missing path: "{text}"')
        step = path[-1]
        if isinstance(parent, dict):
            parent[step] = value
            return
        index = len(parent) if step == "-" else _index(step, text, op)
        if index > len(parent):
            raise _Inapplicable(_out_of_range(index, text, op))
        parent.insert(index, value)

    def _remove(self, path: Sequence[str], text: str, op: str) -> None:
        if not path:
            raise _Inapplicable(f"{op} operation does not apply: the whole document cannot be removed")
        parent = self._parent(path, f'{op} operation does not apply: doc is missing path: "{text}"')
        step = path[-1]
        if isinstance(parent, dict):
            if step not in parent:
                why = f"Unable to remove nonexistent key: {step}: missing value"
                raise _Inapplicable(f"error in {op} for path: '{text}': {why}")
            del parent[step]
            return
        index = _index(step, text, op)
        if index >= len(parent):
            raise _Inapplicable(_out_of_range(index, text, op))
        del parent[index]

    def _replace(self, path: Sequence[str], value: Any, text: str) -> None:
        _check_depth(path, value, text)
        if not path:
            self.root = value
            return
        parent = self._parent(path, f"replace operation does not apply: doc is missing path: {text}")
        try:
            self._find(path)
        except KeyError:
            why = f"replace operation does not apply: doc is missing key: {text}: missing value"
            raise _Inapplicable(why) from None
        parent[path[-1] if isinstance(parent, dict) else int(path[-1])] = value

    def _test(self, path: Sequence[str], value: Any, text: str) -> None:
        try:
            current = self._find(path)
        except KeyError:
            why = f"test operation does not apply: is missing path: {text}: missing value"
            raise _Inapplicable(why) from None
        if not same(current, value):
            raise _Inapplicable(f"testing value {text} failed: test failed")

    def _move(self, operation: Operation, path: Sequence[str]) -> None:
        source, text = self._source(operation)
        if path[: len(source)] == source and len(path) > len(source):
            raise _Inapplicable(f"move operation does not apply: {text} cannot be moved into itself")
        value = self._find(source)
        if path == source:
            return
        self._count_work(value)
        self._remove(source, text, "move")
        self._add(path, value, operation.path, "move")

    def _count_work(self, value: Any) -> None:
        """Limit the work of moves: each walks the whole value, and a patch may move the same value often."""
        self._moved += 1 + sum(len(container) for level in _levels(value) for container in level)
        if self._moved > MOVED_MAX:
            raise _Inapplicable(f"Unable to complete the move: the patch moves more than {MOVED_MAX} values")

    def _copy(self, operation: Operation, path: Sequence[str]) -> None:
        source, _ = self._source(operation)
        value = self._find(source)
        self._copied_bytes += len(encode_json(value))
        if self._copied_bytes > COPIED_BYTES_MAX:
            raise _Inapplicable(
                "Unable to complete the copy, the accumulated size increase of copy operation is "
                f"{self._copied_bytes}, exceeding the limit {COPIED_BYTES_MAX}"
            )
        # From here on the value is in two places: nothing in it may be changed in place.
        for level in _levels(value):
            for container in level:
                self._own.pop(id(container), None)
        self._add(path, value, operation.path, "copy")

    def _source(self, operation: Operation) -> tuple[tuple[str, ...], str]:
        if not isinstance(operation.source, str):
            raise _Inapplicable(f'{operation.op} operation has no "from"')
        source = _steps(operation.source, "from")
        try:
            self._find(source)
        except KeyError:
            why = f"{operation.op} operation does not apply: doc is missing from path: {operation.source}"
            raise _Inapplicable(f"{why}: missing value") from None
        return source, operation.source


def _steps(pointer: str, member: str) -> tuple[str, ...]:
    """A JSON pointer's steps, RFC 6901."""
    if not pointer:
        return ()
    if not pointer.startswith("/"):
        raise _Inapplicable(f'{member} "{pointer}" is not a JSON pointer: it must be empty or start with "/"')
    if "~" not in pointer:
        return tuple(pointer[1:].split("/"))
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer[1:].split("/"))


def _value(operation: Operation) -> Any:
    if operation.value is msgspec.UNSET:
        raise _Inapplicable(f'{operation.op} operation of "{operation.path}" has no "value"')
    return operation.value


def _index(step: str, text: str, op: str) -> int:
    if not _is_index(step):
        raise _Inapplicable(f"error in {op} for path: '{text}': value was not a proper array index: '{step}'")
    return int(step)


def _out_of_range(index: int, text: str, op: str) -> str:
    why = f"Unable to access invalid index: {index}: invalid index referenced"
    return f"error in {op} for path: '{text}': {why}"


def _check_depth(path: Sequence[str], value: Any, text: str) -> None:
    """Copies of copies grow deeper with each operation, until no reader accepts the result."""
    depth = len(path)
    for _ in _levels(value):
        depth += 1
        if depth > scalars.DEPTH_MAX:
            raise _Inapplicable(f"{text}: {scalars.TOO_DEEP}")


def _levels(value: Any) -> Iterator[list[Any]]:
    """The containers in a value, outermost first, without recursion."""
    level = [value] if isinstance(value, dict | list) else []
    while level:
        yield level
        inside = (container.values() if isinstance(container, dict) else container for container in level)
        level = [inner for inners in inside for inner in inners if isinstance(inner, dict | list)]


def same(left: Any, right: Any) -> bool:
    """Equal as JSON: in Python, True equals 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)
