"""kubectl's JSONPath."""

from __future__ import annotations

import pytest

from fathom.cli.objects.jsonpath import printed
from fathom.cli.problem import Problem

DOCUMENT = {
    "kind": "List",
    "items": [
        {"metadata": {"name": "a", "labels": {"x.y/z": "1"}}, "n": 1, "ready": True},
        {"metadata": {"name": "b"}, "n": 2},
        {"metadata": {"name": "c"}, "n": 10, "ready": False},
    ],
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.kind}", "List"),
        ("kind", "List"),
        (".kind", "List"),
        ("{$.kind} of {.items[0].metadata.name}", "List of a"),
        ("{.items[*].metadata.name}", "a b c"),
        ("{.items[-1:].metadata.name}", "c"),
        ("{.items[1:].metadata.name}", "b c"),
        ("{.items[7].metadata.name}", ""),
        ("{.none.at.all}", ""),
        ("{..name}", "a b c"),
        (r"{.items[0].metadata.labels.x\.y/z}", "1"),
        ("{.items[0].metadata.labels['x.y/z']}", "1"),
        ("{.items[0].metadata}", '{"name":"a","labels":{"x.y/z":"1"}}'),
        ("{.items[?(@.n>1)].metadata.name}", "b c"),
        ('{.items[?(@.metadata.name=="b")].n}', "2"),
        ("{.items[?(@.metadata.name!='b')].n}", "1 10"),
        ("{.items[?(@.ready)].metadata.name}", "a c"),
        ("{.items[?(@.ready==true)].metadata.name}", "a"),
        ("{.items[?(@.metadata.name>5)].n}", ""),
        ('{range .items[*]}{.metadata.name}{"\\t"}{.n}{"\\n"}{end}.', "a\t1\nb\t2\nc\t10\n."),
        ("{range .items[*]}{range .metadata.labels.*}{@}{end},{end}", "1,,,"),
        ('{"{"}{.kind}{"}"}', "{List}"),
    ],
)
def test_templates(template: str, text: str) -> None:
    assert printed(template, DOCUMENT) == text


@pytest.mark.parametrize(
    "template",
    [
        "{.a",
        "{end}",
        "{range .items[*]}",
        "{.items[?(n)]}",
        "{.items[?(@.n==x)]}",
        "{.items[}",
        "{}}",
        "{a b}",
    ],
)
def test_what_is_no_template_is_refused(template: str) -> None:
    with pytest.raises(Problem, match="JSONPath"):
        printed(template, DOCUMENT)
