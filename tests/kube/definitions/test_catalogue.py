"""`kinds.toml` against what others know of Kubernetes' kinds."""

from __future__ import annotations

import importlib
import pkgutil
import re
import tomllib
from pathlib import Path
from typing import Any

import lightkube.resources
import pytest

from fathom.kube.definitions import catalogue, crd
from fathom.kube.definitions.kind import ALL_VERBS, Kind, ScalePaths
from fathom.kube.definitions.registry import Registry
from fathom.model.column import Column

TOML = Path(catalogue.__file__).with_name("kinds.toml")
# lightkube's words for Kubernetes' verbs.
VERBS = {"post": "create", "put": "update", "global_list": "list", "global_watch": "watch"}
LEFT_OUT = {
    "componentstatuses",
    "bindings",
    "pods/ephemeralcontainers",
    "pods/resize",
    "horizontalpodautoscalers.autoscaling/v1",
    "horizontalpodautoscalers.autoscaling/v1/status",
}


def lightkube_resources() -> dict[str, tuple[str, bool, tuple[str, ...]]]:
    """'deployments.apps/scale' -> (kind, namespaced, verbs), of all stable groups."""
    found = {}
    for module in pkgutil.iter_modules(lightkube.resources.__path__):
        if re.search("alpha|beta", module.name):
            continue
        loaded = importlib.import_module(f"lightkube.resources.{module.name}")
        for made in vars(loaded).values():
            for one in (made, *vars(made).values()) if isinstance(made, type) else ():
                described = _described(one)
                if described:
                    found[described[0]] = described[1:]
    return {name: value for name, value in found.items() if name not in LEFT_OUT}


def _described(resource: Any) -> tuple[str, str, bool, tuple[str, ...]] | None:
    api = getattr(resource, "_api_info", None) if isinstance(resource, type) else None
    if api is None:
        return None
    owner = api.parent or api.resource
    name = f"{api.plural}.{owner.group}" if owner.group else api.plural
    if owner.group == "autoscaling" and owner.version == "v1":
        name += "/v1"
    if api.action:
        name += f"/{api.action}"
    namespaced = any("Namespaced" in base.__name__ for base in resource.__mro__)
    verbs = tuple(sorted({VERBS.get(verb, verb) for verb in api.verbs}))
    return name, api.resource.kind, namespaced, verbs


def ours(registry: Registry) -> dict[str, tuple[str, bool, tuple[str, ...]]]:
    found = {}
    for kind in registry.kinds():
        found[kind.resource] = (kind.kind, kind.namespaced, tuple(sorted(kind.verbs)))
        for name in kind.subresources:
            known = registry.subresources[name]
            if known.connects:  # lightkube has none of these.
                continue
            found[f"{kind.resource}/{name}"] = (known.kind or kind.kind, kind.namespaced, known.verbs)
    return found


def test_names_scopes_verbs_and_subresources_are_those_of_kubernetes(registry: Registry) -> None:
    assert ours(registry) == lightkube_resources()


def test_every_kind_and_its_list_have_a_definition(registry: Registry) -> None:
    definitions = registry.definitions
    without = [
        kind.resource
        for kind in registry.kinds()
        if not kind.definition or (not kind.virtual and f"{kind.definition}List" not in definitions)
    ]
    assert without == []


def test_the_category_all_is_what_kubectl_get_all_shows(registry: Registry) -> None:
    listed = [kind.resource for kind in registry.kinds() if "all" in kind.categories and not kind.stored_as]
    assert listed == [
        "pods",
        "replicationcontrollers",
        "services",
        "daemonsets.apps",
        "deployments.apps",
        "replicasets.apps",
        "statefulsets.apps",
        "horizontalpodautoscalers.autoscaling",
        "cronjobs.batch",
        "jobs.batch",
    ]


def test_a_deployment_is_read_whole(registry: Registry) -> None:
    assert registry.by_resource("deployments.apps") == Kind(
        group="apps",
        version="v1",
        kind="Deployment",
        plural="deployments",
        singular="deployment",
        namespaced=True,
        list_kind="DeploymentList",
        short_names=("deploy",),
        categories=("all",),
        verbs=ALL_VERBS,
        subresources=("scale", "status"),
        scale=ScalePaths("spec.replicas", "status.replicas", "spec.selector"),
        generation=True,
        columns=(
            Column(name="Ready", type="string", path="=replicas_ready"),
            Column(name="Up-to-date", type="string", path="=updated_replicas"),
            Column(name="Available", type="string", path="=available_replicas"),
            Column(name="Age", type="string", path="=age"),
            Column(name="Containers", type="string", path="=containers", priority=1),
            Column(name="Images", type="string", path="=images", priority=1),
            Column(name="Selector", type="string", path="=selector", priority=1),
        ),
        definition="io.k8s.api.apps.v1.Deployment",
    )


def test_every_column_has_a_type_that_tables_know(registry: Registry) -> None:
    wrong = [
        (kind.resource, column.name)
        for kind in registry.kinds()
        for column in kind.columns
        if column.type not in {"string", "integer", "number", "boolean", "date"} or column.path[0] not in ".="
    ]
    assert wrong == []


def test_every_cell_function_is_explained_in_the_file(registry: Registry) -> None:
    used = {column.path for kind in registry.kinds() for column in kind.columns if column.path[0] == "="}
    comments = "\n".join(line for line in TOML.read_text().splitlines() if line.startswith("#"))
    assert {name for name in used if name not in comments and not name.startswith("=event_")} == set()


@pytest.mark.parametrize("path", ["selectable", "columns"])
def test_paths_lead_to_fields_that_exist(registry: Registry, path: str) -> None:
    # What is derived and has no field of its own: kept by the rules' `field`.
    derived = {"jobs.batch:status.successful", "pods:status.podIPs", "events:source"}
    wrong = [
        f"{kind.resource}:{one}"
        for kind in registry.kinds()
        for one in (kind.selectable if path == "selectable" else _column_paths(kind))
        if f"{kind.resource}:{one}" not in derived and not _leads_somewhere(registry, kind, one)
    ]
    assert wrong == []


def _column_paths(kind: Kind) -> list[str]:
    return [column.path[1:] for column in kind.columns if column.path.startswith(".")]


def _leads_somewhere(registry: Registry, kind: Kind, path: str) -> bool:
    schema = registry.definitions[kind.definition]
    for step in re.sub(r"\[[^]]*\]", ".[]", path).split("."):
        seen = registry.definitions.resolve(schema)
        inner = seen.get("items") if step == "[]" else seen.get("properties", {}).get(step)
        schema = inner or seen.get("additionalProperties") or {}
        if not schema:
            return False
    return True


def test_default_paths_lead_to_fields_of_the_right_type(registry: Registry) -> None:
    document = tomllib.loads(TOML.read_text())
    groups = document["defaults"]
    wrong: list[str] = []
    for group in document["groups"]:
        for entry in group["kinds"]:
            name = registry.definitions.name_of(group["name"], group["version"], entry["kind"])
            root = {"$ref": f"#/$defs/{name}"}
            wrong += [
                f"{entry['kind']}: {why}"
                for why in _wrong_defaults(registry, root, entry.get("defaults", {}), groups)
            ]
    assert wrong == []


def _wrong_defaults(registry: Registry, root: Any, paths: dict[str, Any], groups: Any) -> list[str]:
    wrong = []
    for path, value in paths.items():
        schema: Any = root
        for step in path.removesuffix("?").split("."):
            schema = (
                registry.definitions.resolve(schema).get("properties", {}).get(step.removesuffix("[]"), {})
            )
            schema = schema.get("items", {}) if step.endswith("[]") else schema
        if not schema:
            wrong.append(path)
        elif isinstance(value, str) and value.startswith("@"):
            wrong += [
                f"{path}.{inner}" for inner in _wrong_defaults(registry, schema, groups[value[1:]], groups)
            ]
        elif not _fits(registry.definitions.resolve(schema), value):
            wrong.append(f"{path} = {value!r}")
    return wrong


def _fits(schema: Any, value: Any) -> bool:
    types = {bool: "boolean", int: "integer", str: "string", dict: "object", list: "array"}
    return types[type(value)] in str(schema.get("type") or schema.get("oneOf"))


def test_no_definition_may_add_to_a_group_of_ours(registry: Registry) -> None:
    assert {kind.group for kind in registry.kinds() if "." in kind.group} == crd.BUILTIN_GROUPS
