"""Tables: the columns of every kind, and what people read in them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.api.tables import cell, columns_of, row, table
from fathom.kinds import workload_progress
from fathom.kube.columns import CELLS
from fathom.kube.columns.paths import parse_path
from fathom.kube.columns.times import since
from fathom.kube.definitions.kind import Kind
from fathom.kube.definitions.own import OWN_KINDS, own_kind
from fathom.kube.definitions.registry import Registry
from fathom.model.column import Column
from fathom.model.objects import Obj
from fathom.model.times import human_duration, moment_ns

NOW = "2024-05-01T12:00:00Z"
NOW_NS = 1_714_564_800_000_000_000
REGISTRY = Registry.builtin()


def kind(resource: str) -> Kind:
    found = REGISTRY.by_resource(resource)
    assert found is not None
    return found


def cells(resource: str, obj: Obj) -> dict[str, Any]:
    """The cells of one row, by their columns."""
    of = kind(resource)
    names = [column.name for column in columns_of(of)]
    return dict(zip(names, row(of, obj, now_ns=NOW_NS)["cells"], strict=True))


def named(name: str, **parts: Any) -> Obj:
    return {"metadata": {"name": name, "creationTimestamp": "2024-05-01T11:55:00Z"}, **parts}


USED = {
    column.path
    for of in (*REGISTRY.kinds(), *OWN_KINDS)
    for column in of.columns
    if column.path.startswith("=")
}


@pytest.mark.parametrize("path", sorted(USED))
def test_every_function_that_a_column_names_exists(path: str) -> None:
    assert path.removeprefix("=") in CELLS


def test_every_function_belongs_to_a_column() -> None:
    assert {f"={name}" for name in CELLS} - USED == set()


@pytest.mark.parametrize("resource", sorted(of.resource for of in REGISTRY.kinds()))
def test_every_kind_can_show_an_object_with_nothing_in_it(resource: str) -> None:
    of = kind(resource)
    for obj in (named("x"), named("x", spec={}, status={}), {}):
        found = row(of, obj, now_ns=NOW_NS)["cells"]
        assert len(found) == len(columns_of(of))
        assert all(isinstance(value, str | int | bool | float) for value in found)


@pytest.mark.parametrize("path", sorted(of.resource for of in REGISTRY.kinds()))
def test_paths_of_columns_can_be_read(path: str) -> None:
    for column in columns_of(kind(path)):
        if not column.path.startswith("="):
            parse_path(column.path)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "<invalid>"),
        (-1.5, "0s"),
        (0, "0s"),
        (0.9, "0s"),
        (1, "1s"),
        (119, "119s"),
        (120, "2m"),
        (150, "2m30s"),
        (599, "9m59s"),
        (600, "10m"),
        (659, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600 - 1, "7h59m"),
        (8 * 3600, "8h"),
        (48 * 3600 - 1, "47h"),
        (48 * 3600, "2d"),
        (51 * 3600, "2d3h"),
        (8 * 86400 - 1, "7d23h"),
        (8 * 86400, "8d"),
        (729 * 86400, "729d"),
        (730 * 86400, "2y"),
        (731 * 86400, "2y1d"),
        (8 * 365 * 86400 - 1, "7y364d"),
        (8 * 365 * 86400, "8y"),
        (100 * 365 * 86400 + 5, "100y"),
    ],
)
def test_durations_are_rounded_as_kubernetes_rounds_them(seconds: float, shown: str) -> None:
    assert human_duration(seconds) == shown


def test_times_are_read_exactly_or_not_at_all() -> None:
    assert moment_ns(NOW) == NOW_NS
    assert moment_ns("2024-05-01T14:00:00+02:00") == NOW_NS
    assert moment_ns("2024-05-01T12:00:00.000001Z") == NOW_NS + 1000
    assert [moment_ns(bad) for bad in ("", None, "soon", "2024-05-01T12:00:00", 5)] == [None] * 5
    assert (since(None, NOW_NS), since("2024-05-01T11:55:00Z", NOW_NS)) == ("<unknown>", "5m")


OBJECT: Obj = {
    "metadata": {"labels": {"app.kubernetes.io/name": "web", "plain": "x"}},
    "spec": {"hosts": ["a", "b", "c"], "ports": [{"port": 80}, {"port": 81}], "on": True, "n": 3},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Synced", "weight": 7}]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.n", [3]),
        ("spec.n", [3]),
        ("{.spec.n}", [3]),
        ("$.spec.n", [3]),
        (".spec.hosts[0]", ["a"]),
        (".spec.hosts[-1]", ["c"]),
        (".spec.hosts[3]", []),
        (".spec.hosts[*]", ["a", "b", "c"]),
        (".spec.hosts[1:]", ["b", "c"]),
        (".spec.hosts[0:3:2]", ["a", "c"]),
        (".spec.ports[*].port", [80, 81]),
        (".spec.ports.*.port", [80, 81]),
        (r".metadata.labels.app\.kubernetes\.io/name", ["web"]),
        (".metadata.labels['app.kubernetes.io/name']", ["web"]),
        ('.metadata.labels["plain"]', ["x"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type == 'Ready')].status", ["True"]),
        ('.status.conditions[?(@.type!="Ready")].type', ["Synced"]),
        (".status.conditions[?(@.weight)].type", ["Synced"]),
        (".status.conditions[?(@.weight>=7)].type", ["Synced"]),
        (".status.conditions[?(@.weight>7.5)].type", []),
        (".status.conditions[?(@.type>3)].type", []),
        ("..port", [80, 81]),
        (".spec.nothing.here", []),
        (".spec.n.deeper", []),
        (".spec.on[0]", []),
        ("", [OBJECT]),
    ],
)
def test_paths_find_what_is_there(path: str, found: list[Any]) -> None:
    assert list(parse_path(path).find(OBJECT)) == found


@pytest.mark.parametrize(
    "path", [".a[", ".a[?(@.b==c)]", ".a[?(x)]", ".a[]", ".a[0:1:0]", "[b]", ".a[?(@.b==)]"]
)
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"unrecognized|slice"):
        parse_path(path)


@given(st.text(alphabet=".[]?@()*'\"=<>!\\ab01-:${}", max_size=30))
def test_any_text_is_a_path_or_refused(text: str) -> None:
    try:
        path = parse_path(text)
    except ValueError:
        return
    list(path.find(OBJECT))


CUSTOM = Kind(
    group="example.com",
    version="v1",
    kind="Gadget",
    plural="gadgets",
    singular="gadget",
    namespaced=True,
    list_kind="GadgetList",
    columns=(
        Column(name="Size", type="integer", path=".spec.size"),
        Column(name="Weight", type="number", path=".spec.weight", description="In grams."),
        Column(name="On", type="boolean", path=".spec.on"),
        Column(name="Note", type="string", path=".spec.note", priority=1),
        Column(name="Since", type="date", path=".status.since"),
    ),
)


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        ({}, [None, None, None, None, None, None]),
        (
            named("g", spec={"size": 3, "weight": 2, "on": False, "note": "hi"}, status={"since": NOW}),
            ["g", 3, 2.0, False, "hi", "0s"],
        ),
        (
            named(
                "g", spec={"size": 3.9, "weight": 1.5, "on": "yes", "note": ["a", 1]}, status={"since": "x"}
            ),
            ["g", 3, 1.5, None, '["a",1]', "<invalid>"],
        ),
        (
            named("g", spec={"size": "3", "weight": True, "note": True}, status={"since": 5}),
            ["g", None, None, None, "true", None],
        ),
        (named("g", spec={"note": {"b": 1.5}}), ["g", None, None, None, '{"b":1.5}', None]),
        (named("g", spec={"note": 7.0}), ["g", None, None, None, "7", None]),
    ],
)
def test_custom_columns_have_their_types_or_nothing(obj: Obj, expected: list[Any]) -> None:
    assert row(CUSTOM, obj, now_ns=NOW_NS)["cells"] == expected


def test_custom_columns_are_described() -> None:
    definitions = table(CUSTOM, [], now_ns=NOW_NS)["columnDefinitions"]
    assert [(one["name"], one["type"], one["format"], one["priority"]) for one in definitions] == [
        ("Name", "string", "name", 0),
        ("Size", "integer", "", 0),
        ("Weight", "number", "", 0),
        ("On", "boolean", "", 0),
        ("Note", "string", "", 1),
        ("Since", "date", "", 0),
    ]
    assert definitions[1]["description"] == (
        "Custom resource definition column (in JSONPath format): .spec.size"
    )
    assert definitions[2]["description"] == "In grams."


def test_a_kind_without_columns_has_name_and_age() -> None:
    plain = Kind(
        group="example.com",
        version="v1",
        kind="Thing",
        plural="things",
        singular="thing",
        namespaced=False,
        list_kind="ThingList",
    )
    assert [(one.name, one.type) for one in columns_of(plain)] == [("Name", "string"), ("Age", "date")]
    assert row(plain, named("t"), now_ns=NOW_NS)["cells"] == ["t", "5m"]
    assert cells("serviceaccounts", named("robot")) == {"Name": "robot", "Age": "5m"}


def test_a_column_whose_path_cannot_be_read_stays_empty() -> None:
    assert cell(CUSTOM, Column(name="X", type="string", path=".a["), named("g"), NOW_NS) is None


def test_a_row_carries_as_much_of_its_object_as_asked() -> None:
    obj = named("web", data={"a": "b"})
    maps = kind("configmaps")
    assert row(maps, obj, now_ns=NOW_NS, include="Object")["object"] == obj
    assert row(maps, obj, now_ns=NOW_NS, include="None")["object"] is None
    assert row(maps, obj, now_ns=NOW_NS, version="v1beta1")["object"] == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1beta1",
        "metadata": obj["metadata"],
    }


def test_a_table_says_what_it_is() -> None:
    made = table(kind("namespaces"), [named("a", status={"phase": "Active"})], now_ns=NOW_NS, include="None")
    assert (made["kind"], made["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert made["rows"] == [{"cells": ["a", "Active", "5m"], "object": None}]
    assert table(kind("namespaces"), [], now_ns=NOW_NS, headers=False)["columnDefinitions"] is None


def test_all_that_holds_a_workload_is_shown_and_not_only_the_first() -> None:
    progress = own_kind(workload_progress.DEFINITION)
    reasons = [{"reason": "image", "message": "no such command"}, {"reason": "quota/risk-zone-c"}]
    current = {"pendingReasons": reasons, "stuckAt": "quota", "serving": 1}
    status = {"current": current, "previous": {"serving": 2}}
    shown = {
        column.name: cell(progress, column, named("deployment-web", status=status), NOW_NS)
        for column in columns_of(progress)
    }
    assert (shown["Pending"], shown["Stuck"]) == ("image,quota/risk-zone-c", "quota")
    assert (shown["Serving"], shown["Old-Serving"], shown["Message"]) == (1, 2, "no such command")


@pytest.mark.parametrize(
    ("path", "obj", "shown"),
    [
        (".spec.a.b", {"spec": {"a": {"b": "x"}}}, "x"),
        (".spec.a.b", {"spec": {"a": {"b": 3}}}, "3"),
        (".spec.a.b", {"spec": {"a": {"b": ""}}}, "<none>"),
        (".spec.a.b", {"spec": {"a": {}}}, "<none>"),
        (".spec.a.b", {"spec": {"a": "text"}}, "<none>"),
        (".spec.a.b", {"spec": None}, "<none>"),
        (".spec.all[*]", {"spec": {"all": ["x", "y"]}}, "x,y"),
        (".spec.all[*]", {"spec": {"all": []}}, "<none>"),
        ('.spec.all[?(@.type=="In")].at', {"spec": {"all": [{"type": "Out", "at": 1}]}}, "<none>"),
        ('.spec.all[?(@.type=="In")].at', {"spec": {"all": [{"type": "In", "at": "here"}]}}, "here"),
    ],
)
def test_a_column_says_what_it_shows_where_its_path_finds_nothing(path: str, obj: Obj, shown: str) -> None:
    column = Column(name="A", type="string", path=path, missing="<none>")
    assert cell(kind("pods"), column, obj, NOW_NS) == shown
