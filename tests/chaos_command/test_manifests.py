"""Which objects are applied before the program starts, and which while things go wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from fathom.chaos.manifests import BadManifest, Manifests, read_manifests

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: greetings.example.dev}
spec: {group: example.dev, names: {kind: Greeting}}
"""
HELLO = "{apiVersion: example.dev/v1, kind: Greeting, metadata: {name: hello}}"
SETTINGS = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}"
SPACE = "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}"


def names(manifests: Manifests) -> tuple[list[str], list[str]]:
    return [one["metadata"]["name"] for one in manifests.before], [
        one["metadata"]["name"] for one in manifests.during
    ]


def written(directory: Path, name: str, *documents: str) -> Path:
    file = directory / name
    file.write_text("\n---\n".join(documents))
    return file


def test_objects_of_defined_kinds_are_applied_while_things_go_wrong_and_all_others_before(
    tmp_path: Path,
) -> None:
    file = written(tmp_path, "all.yaml", SETTINGS, HELLO, DEFINITION, SPACE)
    assert names(read_manifests([file])) == (["greetings.example.dev", "shop", "settings"], ["hello"])


def test_objects_of_any_kind_can_be_applied_while_things_go_wrong(tmp_path: Path) -> None:
    file = written(tmp_path, "settings.yaml", f"{{apiVersion: v1, kind: List, items: [{SETTINGS}]}}")
    assert names(read_manifests([], [file])) == ([], ["settings"])


def test_without_objects_of_defined_kinds_all_are_applied_while_things_go_wrong_that_no_other_needs(
    tmp_path: Path,
) -> None:
    file = written(tmp_path, "all.yaml", SETTINGS, DEFINITION, SPACE)
    assert names(read_manifests([file])) == (["greetings.example.dev", "shop"], ["settings"])


def test_objects_are_there_before_where_others_are_named_to_be_applied_later(tmp_path: Path) -> None:
    files = [written(tmp_path, "settings.yaml", SETTINGS)], [written(tmp_path, "space.yaml", SPACE)]
    assert names(read_manifests(*files)) == (["settings"], ["shop"])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "is not YAML: "),
        ("kind: ConfigMap", ": a document has no apiVersion, kind or metadata"),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {}}", ": a ConfigMap has no metadata.name"),
        ("text", ": a document has no apiVersion, kind or metadata"),
    ],
)
def test_a_file_that_is_no_manifest_is_refused_by_its_name(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(BadManifest) as refused:
        read_manifests([written(tmp_path, "bad.yaml", text)])
    assert f"{tmp_path}/bad.yaml" in str(refused.value)
    assert complaint in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadManifest, match=r"none\.yaml: No such file or directory"):
        read_manifests([tmp_path / "none.yaml"])
