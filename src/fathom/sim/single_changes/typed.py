"""Changes through the API: as plain JSON, or read from the commands that `why` prints.

Only the forms of kubectl that `why` uses are read: patch (json and merge), patch piped into replace --force,
uncordon, delete, and apply of an object that is echoed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from fathom.client.api import Resource
from fathom.client.outcomes import Committed, Outcome
from fathom.model.objects import Key, Obj, metadata
from fathom.sim.single_changes.resources import BY_KIND, NODES
from fathom.sim.world.world import World

JSON_PATCH = "application/json-patch+json"
WRITTEN_BY_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")


class NotMade(Exception):
    """The command cannot be read, or the API refused it."""


class ApiChange(msgspec.Struct, frozen=True):
    """A change of one object."""

    verb: str  # patch, replace (delete it and create it with the patch), create, delete
    resource: Resource
    key: Key
    operations: tuple[Obj, ...] = ()  # Of a JSON patch.
    objects: tuple[Obj, ...] = ()  # To create, together: a claim with its volume, a policy with its rollout.

    @property
    def count(self) -> int:
        """One for each field that is changed."""
        return max(1, len(self.operations))

    @property
    def fields(self) -> frozenset[str]:
        """What is changed, without the amounts: two changes of the same fields differ only in amounts."""
        place = f"{self.resource.name}/{'/'.join(self.key)}"
        if not self.operations:
            return frozenset({f"{self.verb} {place}"})
        return frozenset(f"{place}{_field(operation)}" for operation in self.operations)


def _field(operation: Obj) -> str:
    if operation["op"] == "add":  # To a list: what is added counts, not where.
        value = operation["value"]
        items = value if isinstance(value, list) else [value]
        path = str(operation["path"]).removesuffix("/-")
        return f"{path}+{sorted(map(_plain, items))}"
    return str(operation["path"])


def _plain(value: Any) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()


def patch(resource: Resource, key: Key, *operations: Obj) -> ApiChange:
    return ApiChange("patch", resource, key, operations)


# Reading commands.


def read_command(command: str) -> list[ApiChange]:
    """Raises NotMade."""
    if not command:
        raise NotMade("there is no command")
    words = shlex.split(command)
    return [_read(list(part)) for part in _parts(words)]


def _parts(words: Sequence[str]) -> Iterator[list[str]]:
    """The commands that `&&` and `;` join."""
    part: list[str] = []
    for word in words:
        if word == "&&" or word.endswith(";"):
            yield [*part, *([word[:-1]] if len(word) > 1 and word != "&&" else [])]
            part = []
        else:
            part.append(word)
    yield part


def _read(words: list[str]) -> ApiChange:
    if words[0] == "echo":
        return _applied(msgspec.json.decode(words[1]))
    if words[0] != "kubectl":
        raise NotMade(f"not a command of kubectl: {shlex.join(words)}")
    rest, namespace = words[1:], ""
    if rest[0] == "-n":
        namespace, rest = rest[1], rest[2:]
    verb, *rest = rest
    if verb == "uncordon":
        return patch(NODES, Key("", rest[0]), {"op": "remove", "path": "/spec/unschedulable"})
    resource, key = _resource(rest[0]), Key(namespace, rest[1])
    if verb == "delete":
        return ApiChange("delete", resource, key)
    if verb != "patch" or not {"--type=json", "--type=merge"} & set(rest):
        raise NotMade(f"a form of kubectl that is not known here: {shlex.join(words)}")
    content = msgspec.json.decode(rest[rest.index("-p") + 1])
    operations = tuple(content) if "--type=json" in rest else tuple(_merged("", content))
    return ApiChange("replace" if "replace" in rest else "patch", resource, key, operations)


def _merged(path: str, content: Any) -> Iterator[Obj]:
    """A merge patch as operations: fields of objects that exist."""
    if not isinstance(content, dict):
        yield {"op": "replace", "path": path, "value": content}
        return
    for name, value in content.items():
        yield from _merged(f"{path}/{name.replace('~', '~0').replace('/', '~1')}", value)


def _resource(kind: str) -> Resource:
    if kind not in BY_KIND:
        raise NotMade(f"a kind that is not known here: {kind}")
    return BY_KIND[kind]


def _applied(obj: Obj) -> ApiChange:
    objects = tuple(obj["items"]) if obj["kind"] == "List" else (obj,)
    return ApiChange("create", _resource(_kind(objects[0])), _key(objects[0]), objects=objects)


def _kind(obj: Obj) -> str:
    return str(obj["kind"]).lower()


def _key(obj: Obj) -> Key:
    return Key(metadata(obj).get("namespace", ""), metadata(obj)["name"])


# Making changes.


async def make(world: World, changes: Sequence[ApiChange]) -> None:
    """Raises NotMade."""
    for change in changes:
        outcome = await _make(world, change)
        if not isinstance(outcome, Committed):
            raise NotMade(f"{change.verb} {change.resource.name} {'/'.join(change.key)}: {outcome}")


async def _make(world: World, change: ApiChange) -> Outcome:
    namespace, name = change.key
    if change.verb == "create":
        return [
            await world.api.create(_resource(_kind(obj)), _key(obj).namespace, obj) for obj in change.objects
        ][-1]
    existing = world.get(change.resource.name, change.key)
    if existing is None:
        raise NotMade(f"{change.resource.name} {name} does not exist")
    if change.verb == "patch":
        operations = list(change.operations)
        return await world.api.patch(change.resource, namespace, name, operations, media=JSON_PATCH)
    uid = str(metadata(existing)["uid"])
    deleted = await world.api.delete(change.resource, namespace, name, uid=uid, grace_s=0)
    if change.verb == "delete":
        return deleted
    return await world.api.create(
        change.resource, namespace, _without_server_fields(patched(existing, change))
    )


def _without_server_fields(obj: Obj) -> Obj:
    meta = {name: value for name, value in metadata(obj).items() if name not in WRITTEN_BY_SERVER}
    return {**{name: value for name, value in obj.items() if name != "status"}, "metadata": meta}


def patched(obj: Obj, change: ApiChange) -> Obj:
    """The object with the JSON patch, by hand. Raises NotMade."""
    copy: Obj = msgspec.json.decode(msgspec.json.encode(obj))
    for operation in change.operations:
        *parents, last = [_unescaped(part) for part in str(operation["path"]).split("/")[1:]]
        place: Any = copy
        try:
            for part in parents:
                place = place[int(part)] if isinstance(place, list) else place[part]
            _operate(place, last, operation)
        except (KeyError, IndexError) as error:
            raise NotMade(f"the path {operation['path']} does not exist") from error
    return copy


def _operate(place: Any, last: str, operation: Obj) -> None:
    if operation["op"] == "remove":
        del place[int(last) if isinstance(place, list) else last]
    elif last == "-":
        place.append(operation["value"])
    elif isinstance(place, list):
        place[int(last)] = operation["value"]
    else:
        place[last] = operation["value"]


def _unescaped(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")
