"""A pod's volumes as directories of the machine.

Supported are ConfigMaps, Secrets, the downward API, projections of these, emptyDir and hostPath; other kinds
are rejected with a message.

Pure functions (`volume_files`) compute a volume's content; one function (`write_volume`) writes it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from fathom.agent.host.environment import Surroundings, Unresolved, contents_of, field_of, resource_of
from fathom.agent.safe_files import (
    Unsafe,
    closing,
    entries_of,
    make_directories,
    names_in,
    open_top,
    read_file,
    set_rights_of_place,
    step,
    write_file,
)
from fathom.model.objects import Obj, labels_of, lookup, metadata

MODE = 0o644
TOKEN_S = 3600  # kube-apiserver's default.
SOURCES = ("configMap", "secret", "downwardAPI")
# Of all volumes of a pod. Some seconds of work; an object has a megabyte at most.
FILES_MAX = 10_000
BYTES_MAX = 64 << 20


class File(msgspec.Struct, frozen=True):
    content: bytes
    mode: int = MODE


Files = dict[str, File]  # By path inside the volume.


def volume_files(volume: Obj, around: Surroundings, tokens: Mapping[str, str]) -> Files | None:
    """The volume's files; None: an empty directory for the pod. `tokens`: of service accounts, by
    audience."""
    name = volume.get("name", "")
    if "emptyDir" in volume:
        return None
    if source := volume.get("configMap"):
        return _from(
            "configmap", source, str(source.get("name")), around.config_maps, source.get("defaultMode")
        )
    if source := volume.get("secret"):
        return _from(
            "secret", source, str(source.get("secretName")), around.secrets, source.get("defaultMode")
        )
    if source := volume.get("downwardAPI"):
        return _downward(source, around, source.get("defaultMode"))
    if source := volume.get("projected"):
        return _projected(source, around, tokens)
    kinds = ", ".join(sorted(set(volume) - {"name"})) or "nothing"
    raise Unresolved(f'volume "{name}" has a type that this agent does not support: {kinds}')


def check_amounts(volumes: Iterable[Obj], around: Surroundings) -> None:
    """Raises `Unresolved` if a pod names so much that its agent, which has other pods, would be busy with it:
    an object is read whole, as often as it is named."""
    sizes = {
        (kind, name): _sizes_of(obj)
        for kind, objects in (("configMap", around.config_maps), ("secret", around.secrets))
        for name, obj in objects.items()
    }
    shown = sum(map(len, _shown_texts(around.pod)))
    files = size = 0
    for kind, source in _sources_of(volumes):
        items = source.get("items") or ()
        whole = sizes.get((kind, str(source.get("name") or source.get("secretName"))), {})
        files += len(items or whole)
        # Downward, every item may be all labels and annotations.
        size += sum(shown if kind == "downwardAPI" else whole.get(item.get("key"), 0) for item in items)
        size += sum(whole.values())
        if files > FILES_MAX or size > BYTES_MAX:
            most = f"{FILES_MAX} files or {BYTES_MAX >> 20} MiB"
            raise Unresolved(f"the volumes of the pod have more than {most}, each as often as it is named")


def _sizes_of(obj: Obj | None) -> dict[str, int]:
    entries = {**((obj or {}).get("data") or {}), **((obj or {}).get("binaryData") or {})}
    return {name: len(name) + len(text) for name, text in entries.items()}


def _shown_texts(pod: Obj) -> Iterator[str]:
    for pairs in (labels_of(pod), metadata(pod).get("annotations") or {}):
        for name, text in pairs.items():
            yield from (name, text)


def _sources_of(volumes: Iterable[Obj]) -> Iterator[tuple[str, Obj]]:
    for volume in volumes:
        for holder in (volume, *((volume.get("projected") or {}).get("sources") or ())):
            yield from ((kind, holder[kind]) for kind in SOURCES if holder.get(kind))


def _from(kind: str, source: Obj, name: str, objects: Mapping[str, Obj | None], mode: int | None) -> Files:
    obj = objects.get(name)
    if obj is None:
        if source.get("optional"):
            return {}
        raise Unresolved(f'{kind} "{name}" not found')
    contents = contents_of(kind, obj)
    items = source.get("items")
    if not items:
        return {_inside(key): File(raw, mode or MODE) for key, raw in contents.items()}
    files: Files = {}
    for item in items:
        if item["key"] in contents:
            files[_inside(item["path"])] = File(contents[item["key"]], item.get("mode") or mode or MODE)
        elif not source.get("optional"):
            raise Unresolved(f'{kind} "{name}" references non-existent key: {item["key"]}')
    return files


def _downward(source: Obj, around: Surroundings, mode: int | None) -> Files:
    files: Files = {}
    for item in source.get("items") or ():
        if reference := item.get("fieldRef"):
            text = field_of(str(reference.get("fieldPath")), around)
        else:
            text = resource_of(item.get("resourceFieldRef") or {}, {}, around)
        files[_inside(item["path"])] = File(text.encode(), item.get("mode") or mode or MODE)
    return files


def _projected(volume: Obj, around: Surroundings, tokens: Mapping[str, str]) -> Files:
    files: Files = {}
    mode = volume.get("defaultMode")
    for source in volume.get("sources") or ():
        if projection := source.get("configMap"):
            files |= _from("configmap", projection, str(projection.get("name")), around.config_maps, mode)
        elif projection := source.get("secret"):
            files |= _from("secret", projection, str(projection.get("name")), around.secrets, mode)
        elif projection := source.get("downwardAPI"):
            files |= _downward(projection, around, mode)
        elif projection := source.get("serviceAccountToken"):
            token = tokens.get(str(projection.get("audience") or ""))
            if token is None:
                raise Unresolved("failed to fetch a token for the pod's service account")
            files[_inside(projection["path"])] = File(token.encode(), mode or MODE)
        else:
            raise Unresolved(f"projected source {', '.join(sorted(source))} is not supported by this agent")
    return files


def _inside(path: str) -> str:
    """The API server has validated the path; since a file is written there, it is checked here too."""
    try:
        names = names_in(path)
    except Unsafe as error:
        raise Unresolved(f'"{path}" {error.strerror}') from None
    if not names:
        raise Unresolved(f'"{path}" is not the path of a file')
    return "/".join(names)


def audiences_of(pod: Obj) -> dict[str, int]:
    """Audiences of the pod's mounted account tokens, and the lifetime of each in seconds: of several with one
    audience, the shortest."""
    lifetimes: dict[str, int] = {}
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if token := source.get("serviceAccountToken"):
                audience, seconds = (
                    str(token.get("audience") or ""),
                    token.get("expirationSeconds") or TOKEN_S,
                )
                lifetimes[audience] = min(seconds, lifetimes.get(audience, seconds))
    return lifetimes


def write_volume(
    directory: Path, files: Files | None, owner: tuple[int, int] | None, group: int | None = None
) -> bool:
    """Write each file atomically: a reader sees the old one or the new one. The directory itself stays,
    because containers have it mounted: they see the change. Returns whether anything changed. `group`: the
    pod's fsGroup, if we may set it."""
    with closing(_opened(directory)) as top:
        if files is None:
            set_rights_of_place(
                top, mode=0o777 if group is None else 0o2777, gid=-1 if group is None else group
            )
            return False
        if owner is not None and group is not None:
            owner = owner[0], group
            files = {path: File(file.content, file.mode | 0o440) for path, file in files.items()}
        set_rights_of_place(top, mode=0o755)
        changed = [_write(top, names_in(path), file, owner) for path, file in files.items()]
        removed = _remove_others(top, "", files)
        return any(changed) or removed


def _opened(directory: Path) -> int:
    directory.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with closing(open_top(directory.parent)) as above:
        return make_directories(above, [directory.name], mode=0o755)


def _write(top: int, names: list[str], file: File, owner: tuple[int, int] | None) -> bool:
    with closing(make_directories(top, names[:-1], mode=0o755)) as directory:
        if _is_there(directory, names[-1], file):
            return False
        write_file(directory, names[-1], file.content, mode=file.mode, owner=owner)
        return True


def _is_there(directory: int, name: str, file: File) -> bool:
    """Whether the file has this content; if so, its mode is set."""
    try:
        if read_file(directory, name, len(file.content) + 1) != file.content:
            return False
        with closing(step(directory, name)) as fd:
            set_rights_of_place(fd, mode=file.mode)
        return True
    except OSError:
        return False  # It is written again, whatever is there.


def _remove_others(directory: int, prefix: str, files: Files) -> bool:
    """Remove files that are not in the volume any more. Only the agent writes there, so the tree is
    shallow."""
    removed = False
    for name, is_directory in entries_of(directory):
        if is_directory:
            with closing(step(directory, name)) as below:
                removed |= _remove_others(below, f"{prefix}{name}/", files)
            with contextlib.suppress(OSError):  # It is not empty.
                os.rmdir(name, dir_fd=directory)
        elif f"{prefix}{name}" not in files:
            os.unlink(name, dir_fd=directory)
            removed = True
    return removed


def changes_by_itself(volume: Obj) -> bool:
    """Whether the volume's content may change while a container runs."""
    return any(kind in volume for kind in ("configMap", "secret", "projected", "downwardAPI"))


def shows_metadata(pod: Obj) -> bool:
    """Whether a volume shows labels or annotations, which users may change while the pod runs."""
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    shown = [volume.get("downwardAPI") for volume in volumes]
    shown += [
        source.get("downwardAPI")
        for volume in volumes
        for source in (volume.get("projected") or {}).get("sources") or ()
    ]
    paths = (
        lookup(item, "fieldRef", "fieldPath")
        for projection in shown
        if projection
        for item in projection.get("items") or ()
    )
    return any(str(path).startswith(("metadata.labels", "metadata.annotations")) for path in paths)
