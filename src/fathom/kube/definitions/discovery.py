"""Discovery: the documents at /api and /apis that list the served resources.

Pure functions of the registry. The caller keeps the results until `registry.revision` changes.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256

import msgspec

from fathom.kube.definitions.custom import version_order
from fathom.kube.definitions.kind import Kind
from fathom.kube.definitions.registry import Registry
from fathom.model.objects import Obj

HASH_BYTES = 8  # Kubernetes'.
NOT_STORED = frozenset({"metrics.k8s.io"})  # Served from the agents' measurements.


def document(registry: Registry, path: str, *, aggregated: bool = False) -> Obj | None:
    """The document at /api, /api/v1, /apis, /apis/GROUP or /apis/GROUP/VERSION; None if there is none. Only
    the two roots have an aggregated form."""
    parts = path.strip("/").split("/")
    if not all(parts):
        return None
    if parts == ["api"]:
        return aggregate(registry, core=True) if aggregated else _api_versions()
    if parts == ["apis"]:
        return aggregate(registry, core=False) if aggregated else _group_list(registry)
    if parts[0] == "apis" and len(parts) == 2:
        return _group(registry, parts[1])
    if parts[0] == "apis" and len(parts) == 3:
        return _resource_list(registry, parts[1], parts[2])
    if parts[0] == "api" and len(parts) == 2:
        return _resource_list(registry, "", parts[1])
    return None


def _api_versions() -> Obj:
    # Old clients found the server's address here; today's clients do not use it.
    anywhere = {"clientCIDR": "0.0.0.0/0", "serverAddress": ""}
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [anywhere]}


def _group_list(registry: Registry) -> Obj:
    groups = [_without_kind(_group(registry, name)) for name in _groups(registry) if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def _without_kind(group: Obj | None) -> Obj:
    return {name: value for name, value in (group or {}).items() if name not in {"kind", "apiVersion"}}


def _group(registry: Registry, name: str) -> Obj | None:
    versions = _versions(registry, name)
    if not name or not versions:
        return None
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    head = {"kind": "APIGroup", "apiVersion": "v1", "name": name}
    return {**head, "versions": listed, "preferredVersion": listed[0]}


def _groups(registry: Registry) -> list[str]:
    return list(dict.fromkeys(kind.group for kind in registry.kinds()))


def _versions(registry: Registry, group: str) -> list[str]:
    """The preferred one first. Built-in kinds are in that order; definitions come in any."""
    kinds = [kind for kind in registry.kinds() if kind.group == group]
    versions = list(dict.fromkeys(kind.version for kind in kinds))
    is_custom = any(registry.is_custom(kind.resource) for kind in kinds)
    return sorted(versions, key=version_order) if is_custom else versions


def _kinds(registry: Registry, group: str, version: str) -> list[Kind]:
    return [kind for kind in registry.kinds() if kind.group == group and kind.version == version]


def _resource_list(registry: Registry, group: str, version: str) -> Obj | None:
    kinds = _kinds(registry, group, version)
    if not kinds:
        return None
    resources = [
        entry for kind in kinds for entry in (_resource(registry, kind), *_subresources(registry, kind))
    ]
    head = {"kind": "APIResourceList", "apiVersion": "v1"}
    return {**head, "groupVersion": kinds[0].api_version, "resources": sorted(resources, key=_by_name)}


def _by_name(entry: Obj) -> str:
    return str(entry["name"])


def _resource(registry: Registry, kind: Kind) -> Obj:
    entry: Obj = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if "list" in kind.verbs and not kind.virtual and kind.group not in NOT_STORED:
        entry["storageVersionHash"] = storage_version_hash(_stored(registry, kind))
    return entry


def _stored(registry: Registry, kind: Kind) -> Kind:
    """The kind in whose form objects are stored: itself, except for kinds that share another's storage."""
    if kind.stored_version:
        return msgspec.structs.replace(kind, version=kind.stored_version.rpartition("/")[2])
    if not kind.stored_as:
        return kind
    return next(
        candidate
        for candidate in registry.kinds()
        if candidate.resource == kind.stored_as and not candidate.stored_as
    )


def storage_version_hash(kind: Kind) -> str:
    """As in Kubernetes: clients compare it to see whether the stored form has changed."""
    name = f"{kind.group}/{kind.version}/{kind.kind}"
    return b64encode(sha256(name.encode()).digest()[:HASH_BYTES]).decode()


def _subresources(registry: Registry, kind: Kind) -> list[Obj]:
    entries = []
    for name in kind.subresources:
        subresource = registry.subresources[name]
        entry: Obj = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced}
        if subresource.kind:
            entry |= {"group": subresource.group, "version": subresource.version} if subresource.group else {}
        entries.append({**entry, "kind": subresource.kind or kind.kind, "verbs": list(subresource.verbs)})
    return entries


def aggregate(registry: Registry, *, core: bool) -> Obj:
    """apidiscovery.k8s.io/v2: everything below /api or /apis in one answer."""
    names = [name for name in _groups(registry) if (name == "") is core]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [_discovered_group(registry, name) for name in names],
    }


def _discovered_group(registry: Registry, name: str) -> Obj:
    versions = [
        {
            "version": version,
            "resources": [
                _discovered(registry, kind) for kind in _by_plural(_kinds(registry, name, version))
            ],
            "freshness": "Current",
        }
        for version in _versions(registry, name)
    ]
    return {"metadata": {"name": name} if name else {}, "versions": versions}


def _by_plural(kinds: Sequence[Kind]) -> list[Kind]:
    return sorted(kinds, key=lambda kind: kind.plural)


def _discovered(registry: Registry, kind: Kind) -> Obj:
    entry: Obj = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if kind.subresources:
        entry["subresources"] = [_discovered_subresource(registry, kind, name) for name in kind.subresources]
    return entry


def _discovered_subresource(registry: Registry, kind: Kind, name: str) -> Obj:
    subresource = registry.subresources[name]
    answers = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    if subresource.kind:
        answers = {"group": subresource.group, "version": subresource.version, "kind": subresource.kind}
    return {"subresource": name, "responseKind": answers, "verbs": list(subresource.verbs)}
