"""The definitions that the installed package carries."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fathom.kube.definitions.definitions import gvks_of, refs_in, type_of
from fathom.kube.definitions.registry import Registry


def test_a_kind_is_found_by_group_version_and_kind(registry: Registry) -> None:
    definitions = registry.definitions
    assert definitions.name_of("", "v1", "Pod") == "io.k8s.api.core.v1.Pod"
    assert definitions.name_of("apps", "v1", "Deployment") == "io.k8s.api.apps.v1.Deployment"
    assert definitions.name_of("apps", "v1", "Nonsense") == ""


def test_every_reference_leads_somewhere(registry: Registry) -> None:
    schemas = registry.definitions.schemas
    assert [ref for schema in schemas.values() for ref in refs_in(schema) if ref not in schemas] == []


def test_reachable_definitions_are_closed_and_sorted(registry: Registry) -> None:
    definitions = registry.definitions
    found = definitions.reachable("io.k8s.api.core.v1.Pod", "nonsense")
    assert found == sorted(found)
    assert {ref for name in found for ref in refs_in(definitions[name])} <= set(found)
    assert "io.k8s.api.core.v1.Container" in found
    assert "io.k8s.api.core.v1.Service" not in found


def test_types_are_told_without_null() -> None:
    assert type_of({"type": ["string", "null"]}) == "string"
    assert type_of({"type": "integer"}) == "integer"
    assert type_of({}) == ""


def test_delete_options_belong_to_every_group(registry: Registry) -> None:
    schema = registry.definitions["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]
    assert {("", "v1", "DeleteOptions"), ("apps", "v1", "DeleteOptions")} <= set(gvks_of(schema))


@pytest.mark.live
def test_loading_does_not_import_the_package_that_carries_them() -> None:
    code = "import sys; from fathom.kube.definitions.registry import Registry; Registry.builtin()"
    code += (
        "; print([name for name in ('kubernetes_validate', 'yaml', 'jsonschema_rs') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
