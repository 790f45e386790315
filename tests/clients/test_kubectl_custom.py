"""A user's own kind, from its definition to its end: tables, names, validation, subresources."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests.clients.kubectl import Kubectl, manifest, without_age
from tests.clients.objects import Obj
from tests.clients.running import Server

pytestmark = pytest.mark.kubectl

SPEC = {
    "type": "object",
    "description": "What a widget should be.",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 9, "description": "How big it is."},
        "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        "replicas": {"type": "integer", "format": "int32"},
        "parts": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
    },
}
STATUS = {
    "type": "object",
    "properties": {
        "replicas": {"type": "integer"},
        "selector": {"type": "string"},
        "conditions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type", "status"],
                "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
            },
        },
    },
}
COLUMNS = [
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "How big."},
    {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status"},
    {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]


def definition(group: str) -> Obj:
    """Each test has a group of its own: definitions are for the whole cluster."""
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "description": "A widget.",
                "properties": {"spec": SPEC, "status": STATUS},
            }
        },
        "subresources": {"status": {}, "scale": {**paths, "labelSelectorPath": ".status.selector"}},
        "additionalPrinterColumns": COLUMNS,
    }
    names = {
        "plural": "widgets",
        "singular": "widget",
        "kind": "Widget",
        "shortNames": ["wd"],
        "categories": ["toys"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


@pytest.fixture
def group(cluster: Kubectl, namespace: str) -> Iterator[str]:
    """A group whose Widgets are served."""
    name = f"{namespace}.example.com"
    assert cluster.apply(definition(name)) == (
        f"customresourcedefinition.apiextensions.k8s.io/widgets.{name} created\n"
    )
    cluster.ok(f"wait crd/widgets.{name} --for=condition=Established --timeout=10s")
    yield name
    cluster.ok(f"delete crd widgets.{name} --ignore-not-found")


def widget(group: str, name: str = "w", **spec: object) -> Obj:
    return {
        "apiVersion": f"{group}/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": 3, **spec},
    }


def test_it_is_applied_shown_and_deleted_like_any_other(kubectl: Kubectl, group: str) -> None:
    assert kubectl.apply(widget(group)) == f"widget.{group}/w created\n"
    assert kubectl.apply(widget(group)) == f"widget.{group}/w unchanged\n"
    assert kubectl.apply(widget(group, size=5)) == f"widget.{group}/w configured\n"
    made = kubectl.json(f"get widgets.{group} w")
    assert made["spec"] == {"size": 5, "color": "red"}
    assert made["metadata"]["generation"] == 2
    assert kubectl.ok(f"delete widgets.{group} w") == f'widget.{group} "w" deleted\n'


def test_its_table_has_the_columns_of_its_definition(
    kubectl: Kubectl, server: Server, namespace: str, group: str
) -> None:
    kubectl.apply(widget(group))
    status = {
        "status": {"conditions": [{"type": "Other", "status": "No"}, {"type": "Ready", "status": "True"}]}
    }
    server.patch(f"/apis/{group}/v1/namespaces/{namespace}/widgets/w/status", status)
    kubectl.apply(widget(group, "x"))
    what = f"get widgets.{group}"
    assert without_age(kubectl.rows(what)) == [
        {"NAME": "w", "SIZE": "3", "READY": "True"},
        {"NAME": "x", "SIZE": "3", "READY": ""},
    ]
    assert [row["COLOR"] for row in kubectl.rows(f"{what} -o wide")] == ["red", "red"]


def test_short_names_and_categories(kubectl: Kubectl, group: str) -> None:
    kubectl.apply(widget(group))
    for name in (f"widgets.{group}", f"widget.v1.{group}", f"wd.{group}"):
        assert kubectl.ok(f"get {name} -o name") == f"widget.{group}/w\n"
    listed = {row["APIVERSION"]: row for row in kubectl.within("").rows("api-resources --categories=toys")}
    assert listed[f"{group}/v1"]["SHORTNAMES"] == "wd"
    assert f"widget.{group}/w" in kubectl.ok("get toys -o name").split()


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"size": 0}, "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"),
        ({"size": 10}, "spec.size: Invalid value: 10: spec.size in body should be less than or equal to 9"),
        ({"size": "big"},
         'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"'),
        ({"color": "green"}, 'spec.color: Unsupported value: "green": supported values: "red", "blue"'),
    ],
)  # fmt: skip
def test_its_schema_is_enforced(kubectl: Kubectl, group: str, spec: Obj, said: str) -> None:
    refused = kubectl.fails("create -f -", stdin=json.dumps(widget(group, **spec)))
    assert refused == f'The Widget "w" is invalid: {said}'


def test_a_null_of_a_field_that_cannot_be_null_is_no_value(kubectl: Kubectl, group: str) -> None:
    refused = kubectl.fails("create -f -", stdin=json.dumps(widget(group, size=None)))
    assert refused == 'The Widget "w" is invalid: spec.size: Required value'


def test_unknown_fields_are_pruned_or_refused(kubectl: Kubectl, group: str) -> None:
    odd = manifest(widget(group, nonsense=1))
    assert kubectl.fails("apply -f -", stdin=odd) == (
        'Error from server (BadRequest): error when creating "STDIN": '
        'Widget in version "v1" cannot be handled as a Widget: '
        'strict decoding error: unknown field "spec.nonsense"'
    )
    done = kubectl.run("apply -f - --validate=warn", stdin=odd)
    assert (done.code, done.err) == (0, 'Warning: unknown field "spec.nonsense"\n')
    assert "nonsense" not in kubectl.json(f"get widgets.{group} w")["spec"]


def test_status_and_scale_are_apart(kubectl: Kubectl, group: str) -> None:
    what = f"widgets.{group}/w"
    kubectl.apply(widget(group, replicas=2))
    kubectl.ok(f"patch {what} --type=merge -p", '{"status":{"replicas":9}}')
    assert "status" not in kubectl.json(f"get {what}")
    kubectl.ok(
        f"patch {what} --subresource=status --type=merge -p", '{"status":{"replicas":2},"spec":{"size":9}}'
    )
    made = kubectl.json(f"get {what}")
    assert (made["status"], made["spec"]["size"], made["metadata"]["generation"]) == ({"replicas": 2}, 3, 1)
    assert kubectl.ok(f"scale {what} --replicas=4") == f"widget.{group}/w scaled\n"
    assert kubectl.value(f"get {what}", ".spec.replicas") == "4"
    assert without_age(kubectl.rows(f"get {what} --subresource=scale")) == [
        {"NAME": "w", "DESIRED": "4", "AVAILABLE": "2"}
    ]


def test_it_has_no_strategic_merge(kubectl: Kubectl, group: str) -> None:
    kubectl.apply(widget(group))
    said = kubectl.fails(f"patch widgets.{group} w --type=strategic -p", '{"spec":{"size":4}}')
    assert said == (
        f"error: application/strategic-merge-patch+json is not supported by {group}/v1, Kind=Widget: "
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json"
    )


def test_explain_and_describe(kubectl: Kubectl, group: str) -> None:
    text = kubectl.ok(f"explain widget.spec --api-version={group}/v1")
    assert "DESCRIPTION:\n    What a widget should be.\n" in text
    assert "  size\t<integer> -required-\n    How big it is.\n" in text
    kubectl.apply(widget(group))
    text = kubectl.ok(f"describe widgets.{group} w")
    assert "\nAPI Version:  " in text
    assert "\nSpec:\n  Color:  red\n  Size:   3\nEvents:   <none>\n" in text


def test_conditions_can_be_waited_for(kubectl: Kubectl, server: Server, namespace: str, group: str) -> None:
    kubectl.apply(widget(group))
    with kubectl.started(f"wait widgets.{group}/w --for=condition=Ready --timeout=20s") as waiting:
        status = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        server.patch(f"/apis/{group}/v1/namespaces/{namespace}/widgets/w/status", status)
        assert waiting.ended().code == 0


def test_the_definition_takes_its_objects_with_it(kubectl: Kubectl, cluster: Kubectl, group: str) -> None:
    kubectl.apply(widget(group), widget(group, "x"))
    printed = cluster.ok(f"delete crd widgets.{group}")
    assert printed == f'customresourcedefinition.apiextensions.k8s.io "widgets.{group}" deleted\n'
    assert (
        kubectl.fails(f"get widgets.{group}") == 'error: the server doesn\'t have a resource type "widgets"'
    )
    cluster.apply(definition(group))
    cluster.ok(f"wait crd/widgets.{group} --for=condition=Established --timeout=10s")
    assert kubectl.ok(f"get widgets.{group} -o name") == ""


def test_a_watch_of_objects_sees_the_definition_go(kubectl: Kubectl, cluster: Kubectl, group: str) -> None:
    kubectl.apply(widget(group))
    with kubectl.started(f"get widgets.{group} -w --output-watch-events") as watch:
        watch.until("ADDED")
        cluster.ok(f"delete crd widgets.{group}")
        watch.until("DELETED")


def test_definition_and_object_in_one_file(kubectl: Kubectl, cluster: Kubectl, namespace: str) -> None:
    """The object comes too early for the first run, as it does on any cluster; the second has both."""
    group = f"{namespace}.example.com"
    done = kubectl.run("apply -f -", stdin=manifest(definition(group), widget(group)))
    assert f"widgets.{group} created" in done.out
    cluster.ok(f"wait crd/widgets.{group} --for=condition=Established --timeout=10s")
    printed = kubectl.ok("apply -f -", stdin=manifest(definition(group), widget(group)))
    assert printed == (
        f"customresourcedefinition.apiextensions.k8s.io/widgets.{group} unchanged\nwidget.{group}/w created\n"
    )
    cluster.ok(f"delete crd widgets.{group}")


def test_a_definition_that_is_wrong(cluster: Kubectl, namespace: str) -> None:
    wrong = definition(f"{namespace}.example.com")
    wrong["metadata"]["name"] = "other.example.com"
    said = cluster.fails("create -f -", stdin=manifest(wrong))
    assert said.startswith(
        'The CustomResourceDefinition "other.example.com" is invalid: metadata.name: Invalid value: '
        '"other.example.com": must be spec.names.plural+"."+spec.group'
    )
