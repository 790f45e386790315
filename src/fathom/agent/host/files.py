"""A pod's volumes as directories of the machine. ConfigMaps, Secrets, the downward API, projections of these,
emptyDir and hostPath; what else there is, is not supported, and said so.

What a volume shall contain is told by pure functions (`volume_files`); writing it is one function.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from fathom import private_files
from fathom.agent.host.environment import Surroundings, Unresolved, contents_of, field_of, resource_of
from fathom.model.objects import Obj, lookup

MODE = 0o644
TOKEN_S = 3600  # kube-apiserver's default.


class File(msgspec.Struct, frozen=True):
    content: bytes
    mode: int = MODE


Files = dict[str, File]  # By path inside the volume.


def volume_files(volume: Obj, around: Surroundings, tokens: Mapping[str, str]) -> Files | None:
    """None: an empty place that belongs to the pod. `tokens`: of service accounts, by audience."""
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
    raise Unresolved(f'volume "{name}" is of a kind that this agent does not have: {kinds}')


def _from(kind: str, source: Obj, name: str, there: Mapping[str, Obj | None], mode: int | None) -> Files:
    found = there.get(name)
    if found is None:
        if source.get("optional"):
            return {}
        raise Unresolved(f'{kind} "{name}" not found')
    contents = contents_of(kind, found)
    items = source.get("items")
    if not items:
        return {key: File(raw, mode or MODE) for key, raw in contents.items()}
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
        if one := source.get("configMap"):
            files |= _from("configmap", one, str(one.get("name")), around.config_maps, mode)
        elif one := source.get("secret"):
            files |= _from("secret", one, str(one.get("name")), around.secrets, mode)
        elif one := source.get("downwardAPI"):
            files |= _downward(one, around, mode)
        elif one := source.get("serviceAccountToken"):
            token = tokens.get(str(one.get("audience") or ""))
            if token is None:
                raise Unresolved("no token could be had for the pod's service account")
            files[_inside(one["path"])] = File(token.encode(), mode or MODE)
        else:
            raise Unresolved(f"a projection of {', '.join(sorted(source))} is not supported here")
    return files


def _inside(path: str) -> str:
    """The API has checked it; a file is written by it, so it is checked here too."""
    if path.startswith("/") or ".." in path.split("/"):
        raise Unresolved(f'"{path}" leads out of its volume')
    return path


def audiences_of(pod: Obj) -> dict[str, int]:
    """For which tokens of the pod's account are mounted, and for how many seconds each is good: where several
    are for the same, for the shortest time."""
    found: dict[str, int] = {}
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if token := source.get("serviceAccountToken"):
                audience, seconds = (
                    str(token.get("audience") or ""),
                    token.get("expirationSeconds") or TOKEN_S,
                )
                found[audience] = min(seconds, found.get(audience, seconds))
    return found


def write_volume(
    directory: Path, files: Files | None, owner: tuple[int, int] | None, group: int | None = None
) -> bool:
    """Each file as a whole: a reader sees the old one or the new one. The directory itself stays, because it
    is what containers have mounted: they see the change. Whether there was one. `group`: the pod's fsGroup,
    if we may give it files."""
    if files is None:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        if group is not None:
            os.chown(directory, -1, group)
        directory.chmod(0o777 if group is None else 0o2777)
        return False
    if owner is not None and group is not None:
        owner = owner[0], group
        files = {path: File(file.content, file.mode | 0o440) for path, file in files.items()}
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    directory.chmod(0o755)
    changed = False
    for path, file in files.items():
        changed |= _write(directory / path, file, owner)
    for there in sorted(directory.rglob("*"), reverse=True):
        if there.is_file() and str(there.relative_to(directory)) not in files:
            there.unlink()
            changed = True
        elif there.is_dir() and not any(there.iterdir()):
            there.rmdir()
    return changed


def _write(where: Path, file: File, owner: tuple[int, int] | None) -> bool:
    if where.is_symlink():
        where.unlink()  # Not ours.
    if where.is_file() and where.read_bytes() == file.content:
        where.chmod(file.mode)
        return False
    for above in reversed(where.parents):
        if not above.exists():
            above.mkdir(mode=0o755)
            above.chmod(0o755)
    new = where.with_name(f".{where.name}.new")
    with os.fdopen(private_files.create(new), "wb") as out:
        out.write(file.content)
        if owner is not None:
            os.fchown(out.fileno(), *owner)
        os.fchmod(out.fileno(), file.mode)
    new.replace(where)
    return True


def changes_by_itself(volume: Obj) -> bool:
    """Whether what it shows may change while a container runs."""
    return any(kind in volume for kind in ("configMap", "secret", "projected", "downwardAPI"))


def shows_metadata(pod: Obj) -> bool:
    """Whether a volume shows what people change about a pod while it runs: labels and annotations."""
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    shown = [one.get("downwardAPI") for one in volumes]
    shown += [
        each.get("downwardAPI")
        for one in volumes
        for each in (one.get("projected") or {}).get("sources") or ()
    ]
    paths = (lookup(item, "fieldRef", "fieldPath") for one in shown if one for item in one.get("items") or ())
    return any(str(path).startswith(("metadata.labels", "metadata.annotations")) for path in paths)
