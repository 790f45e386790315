"""Every kind of fathom.dev is in one table, and everything that clients see of it follows from there."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.api.harness import Api, tell
from tests.security.people import CONTROLLERS, introduce, lead

import fathom.kinds
from fathom.api.auth.bootstrap import ROLES
from fathom.api.resources import RegistryResources
from fathom.kinds.all import KINDS
from fathom.kinds.definition import KindDefinition
from fathom.kinds.override_preview import STATES
from fathom.kinds.shape import GROUP, VERSION, Shape, read
from fathom.model.objects import Obj
from fathom.model.user import User

ROOT = Path(__file__).parents[2]
PACKAGE = Path(fathom.kinds.__file__).parent
SOURCE = PACKAGE.parent
PAGE = ROOT / "docs" / "kinds.md"

# What the files of kinds are made of; every other file of the package is a kind.
PARTS = {
    "__init__", "all", "approval", "attached_override", "definition", "override_changes", "override_names",
    "override_policy", "override_scope", "override_stamps", "override_status", "override_summary",
    "override_validation", "preview_answer", "question", "runbook_parameters", "runbook_validation", "schema",
    "shape", "values",
}  # fmt: skip

# Keys of the store that no API serves.
RECORDS = {
    "expansionlocks", "fences", "intentledgers", "ledgers", "nodeledgers", "placementrules", "quotarules",
    "serviceclaims", "tenantledgers",
}  # fmt: skip

TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
STORED = [kind for kind in KINDS if kind.stored]


def named(kind: KindDefinition) -> str:
    return kind.kind


def examples() -> dict[str, Obj]:
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    objects = [yaml.safe_load(block) for block in blocks]
    return {str(obj["kind"]): obj for obj in objects}


def test_every_file_of_the_package_is_a_row_of_the_table() -> None:
    files = {path.stem for path in PACKAGE.glob("*.py")} - PARTS
    definitions = {id(import_module(f"fathom.kinds.{file}").DEFINITION): file for file in files}
    assert len(definitions) == len(files)
    assert {id(kind) for kind in KINDS} == set(definitions)


def test_a_kinds_file_is_called_as_the_kind() -> None:
    for kind in KINDS:
        assert re.sub(r"(?<!^)(?=[A-Z])", "_", kind.kind).lower() == kind.shape.__module__.split(".")[-1]


def test_every_struct_with_metadata_is_a_kind_of_the_table() -> None:
    shapes = {shape for shape in all_shapes(Shape) if shape.__module__.startswith("fathom.")}
    assert {shape for shape in shapes if "metadata" in shape.__struct_fields__} == {
        kind.shape for kind in KINDS
    }


def all_shapes(shape: type[Shape]) -> set[type[Shape]]:
    below = shape.__subclasses__()
    return {*below, *(deeper for one in below for deeper in all_shapes(one))}


def test_no_name_is_taken_twice() -> None:
    names = [name for kind in KINDS for name in (kind.plural, kind.kind.lower(), *kind.short_names)]
    one_word = {"componentsignals", "steeringlimits"}  # Kind and plural are one word.
    names = [name for name in names if name not in one_word]
    assert sorted(names) == sorted(set(names))


def test_a_resource_of_ours_that_the_source_names_is_in_the_table() -> None:
    written = {name for path in SOURCE.rglob("*.py") for name in resources_in(path)}
    assert written - RECORDS <= {kind.plural for kind in KINDS}


def resources_in(path: Path) -> set[str]:
    source = path.read_text()
    if f".{GROUP}" not in source:
        return set()
    texts = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    found = (re.fullmatch(r"([a-z]+)\.fathom\.dev", text) for text in texts if isinstance(text, str))
    return {match.group(1) for match in found if match}


def test_roles_name_no_resource_that_is_not_in_the_table() -> None:
    served = {kind.plural for kind in KINDS}
    served |= {f"{kind.plural}/{name}" for kind in KINDS for name in kind.subresources}
    served |= {STATES}  # Only a permission: there are no such objects.
    for role, rows in ROLES.items():
        wanted = {name for row in rows if len(row) > 2 and row[1] == GROUP for name in row[2].split()}
        assert (role, wanted - served) == (role, set())


def test_discovery_has_the_kinds_of_the_table_and_no_others(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        served = (await api.get(f"/apis/{GROUP}/{VERSION}")).obj["resources"]
        found = {one["name"]: (one["kind"], one["namespaced"], one.get("shortNames", [])) for one in served}
        wanted = {}
        for kind in KINDS:
            wanted[kind.plural] = (kind.kind, kind.namespaced, list(kind.short_names))
            for name in kind.subresources:
                wanted[f"{kind.plural}/{name}"] = (kind.kind, kind.namespaced, [])
        assert found == wanted
        assert {kind.resource for kind in api.core.registry.kinds() if kind.group == GROUP} == {
            kind.resource for kind in KINDS
        }

    tell(story, tmp_path)


def test_openapi_has_the_schema_of_every_kind(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        document = (await api.get(f"/openapi/v3/apis/{GROUP}/{VERSION}")).obj
        for kind in KINDS:
            published = document["components"]["schemas"][f"dev.fathom.{VERSION}.{kind.kind}"]
            for part in set(kind.schema["properties"]) - {"apiVersion", "kind", "metadata"}:
                assert published["properties"][part] == kind.schema["properties"][part]
                assert published.get("required") == kind.schema.get("required")

    tell(story, tmp_path)


def test_docs_have_a_section_for_every_kind_and_an_example_of_each_that_is_stored() -> None:
    assert set(examples()) == {kind.kind for kind in STORED}
    assert set(re.findall(r"^## (\w+)$", PAGE.read_text(), re.MULTILINE)) == {kind.kind for kind in KINDS}


def test_the_example_of_every_kind_is_accepted_read_and_printed(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        introduce(api, User(CONTROLLERS))
        fence = await lead(api, CONTROLLERS, "fathom-system/controllers")
        resources = RegistryResources(api.core.registry)
        for kind in STORED:
            example = examples()[kind.kind]
            path = resources.path(kind.resource, example["metadata"].get("namespace", ""))
            # Only repair may make proposals, and only the server reviews.
            makers: dict[str, Any] = {
                "RepairProposal": {"token": CONTROLLERS, "headers": fence},
                "OverrideReview": {"token": "housekeeping-token"},
            }
            name = example["metadata"]["name"]
            if kind.kind == "SteeringLimits":
                assert (await api.delete(f"{path}/{name}")).status == 200  # A cluster begins with them.
            answer = await api.post(f"{path}?fieldValidation=Strict", example, **makers.get(kind.kind, {}))
            assert answer.status == 201, answer.obj
            # An override of a workload that is not there yet is warned of.
            assert kind.kind == "SchedulerOverride" or "warning" not in answer.headers
            assert msgspec.to_builtins(read(kind.shape, answer.obj))["metadata"]["name"] == name
            table = (await api.get(f"{path}/{name}", headers=TABLE)).obj
            columns = [column["name"] for column in table["columnDefinitions"]]
            assert columns == ["Name", *(column.name for column in kind.columns), "Age"]
            assert len(table["rows"][0]["cells"]) == len(columns)

    tell(story, tmp_path)


@pytest.mark.parametrize("kind", STORED, ids=named)
def test_every_stored_kind_has_columns_and_they_lead_somewhere(kind: KindDefinition) -> None:
    assert kind.columns
    columns = [column.json_path if column.path.startswith("=") else column.path for column in kind.columns]
    for path in (*filter(None, columns), *(f".{field}" for field in kind.selectable)):
        schema = kind.schema
        for word in path.removeprefix(".").replace("[*]", ".items").split("."):
            schema = schema["items"] if word == "items" and "items" in schema else schema["properties"][word]
