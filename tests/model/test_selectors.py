"""Selectors are read as kube-apiserver reads them, and matched as an obvious twin matches them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fathom.model.selectors import (
    NOTHING,
    FieldRequirement,
    FieldSelector,
    LabelSelector,
    Requirement,
    parse_field_selector,
    parse_label_selector,
)

KEYS = ("app", "tier", "in", "example.com/zone", "n")
VALUES = ("", "web", "db", "5", "700", "notin")

keys = st.sampled_from(KEYS)
values = st.sampled_from(VALUES)
label_maps = st.dictionaries(keys, values)
Asked = tuple[str, str, list[str]]
requirements: st.SearchStrategy[Asked] = st.one_of(
    st.tuples(keys, st.sampled_from(["=", "==", "!="]), st.lists(values, min_size=1, max_size=1)),
    # A lone empty value has no written form: `()` is no value at all.
    st.tuples(
        keys,
        st.sampled_from(["in", "notin"]),
        st.lists(values, min_size=1, max_size=3).filter(lambda listed: set(listed) != {""}),
    ),
    st.tuples(keys, st.sampled_from(["exists", "!"]), st.just([])),
    st.tuples(keys, st.sampled_from([">", "<"]), st.sampled_from([["5"], ["6"], ["0"]])),
)


def holds(asked: Asked, labels: Mapping[str, str]) -> bool:
    """The twin: one case per operator, straight from the documentation."""
    key, operator, wanted = asked
    has, value = key in labels, labels.get(key, "")
    match operator:
        case "exists":
            return has
        case "!":
            return not has
        case "=" | "==" | "in":
            return has and value in wanted
        case "!=" | "notin":
            return not has or value not in wanted
        case ">" | "<":
            try:
                number = int(value)
            except ValueError:
                return False
            return number > int(wanted[0]) if operator == ">" else number < int(wanted[0])
    raise AssertionError(operator)


def written(asked: Asked, gap: str) -> str:
    key, operator, wanted = asked
    if operator in {"in", "notin"}:
        return f"{gap}{key} {operator} {gap}({gap}{f'{gap},{gap}'.join(wanted)}{gap})"
    if operator in {"exists", "!"}:
        return f"{gap}{'!' if operator == '!' else ''}{gap}{key}{gap}"
    return f"{key}{gap}{operator}{gap}{wanted[0]}"


@given(st.lists(requirements, max_size=4), label_maps, st.sampled_from(["", " ", " \t"]))
def test_the_string_form_matches_as_the_twin_does(
    asked: list[Asked], labels: dict[str, str], gap: str
) -> None:
    selector = parse_label_selector(",".join(written(one, gap) for one in asked))
    assert selector.matches(labels) == all(holds(one, labels) for one in asked)


@given(st.lists(requirements, max_size=4), label_maps)
def test_what_is_printed_reads_back_as_the_same_selector(asked: list[Asked], labels: dict[str, str]) -> None:
    selector = parse_label_selector(",".join(written(one, "") for one in asked))
    assert parse_label_selector(str(selector)) == selector


@given(st.dictionaries(keys, values, max_size=3), label_maps)
def test_match_labels_are_equalities(wanted: dict[str, str], labels: dict[str, str]) -> None:
    selector = LabelSelector.from_object({"matchLabels": wanted})
    assert selector.matches(labels) == all(labels.get(key) == value for key, value in wanted.items())


@given(
    st.lists(requirements.filter(lambda one: one[1] in {"in", "notin", "exists", "!"}), max_size=4),
    label_maps,
)
def test_match_expressions_match_as_the_twin_does(asked: list[Asked], labels: dict[str, str]) -> None:
    names = {"in": "In", "notin": "NotIn", "exists": "Exists", "!": "DoesNotExist"}
    expressions = [{"key": key, "operator": names[op], "values": wanted} for key, op, wanted in asked]
    selector = LabelSelector.from_object({"matchExpressions": expressions})
    assert selector.matches(labels) == all(holds(one, labels) for one in asked)


@given(st.text(alphabet="ab=!(),<> \t\\/.in", max_size=12))
@example("\x00")
@example("a in (")
def test_any_text_is_a_selector_or_a_value_error(text: str) -> None:
    for parse in (parse_label_selector, parse_field_selector):
        try:
            again = str(parse(text))
        except ValueError as error:
            again = str(error)
        assert again or not text.strip(" \t,")


def test_an_absent_object_selects_nothing_and_an_empty_one_everything() -> None:
    assert LabelSelector.from_object(None) == NOTHING
    assert not NOTHING.matches({"app": "web"})
    assert not NOTHING.matches({})
    assert LabelSelector.from_object({}) == LabelSelector() == parse_label_selector(" ")
    assert LabelSelector().matches({"app": "web"})
    assert LabelSelector().matches({})


def test_a_selector_is_kept_in_key_order_with_its_values_once_and_sorted() -> None:
    assert parse_label_selector("b notin (y,x,y),!a").requirements == (
        Requirement("a", "!"),
        Requirement("b", "notin", ("x", "y")),
    )


def test_the_printed_form_is_that_of_kubernetes() -> None:
    text = "h,e in (x,y),a=b,c!=d,f notin (z),!g,d==e,n>5,o<4"
    assert str(parse_label_selector(text)) == "a=b,c!=d,d==e,e in (x,y),f notin (z),!g,h,n>5,o<4"
    selector = {
        "matchLabels": {"b": "1"},
        "matchExpressions": [{"key": "a", "operator": "In", "values": ["x"]}],
    }
    assert str(LabelSelector.from_object(selector)) == "a in (x),b=1"


LABEL_WORDS = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a,=b", "found '=', expected: identifier after ','"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a=(", "unable to parse requirement: found '(', expected: identifier"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
        ("a in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
        (
            "a in ()",
            "unable to parse requirement: values: Invalid value: []: "
            "for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            "a>b",
            'unable to parse requirement: values[0]: Invalid value: "b": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        ("/a=b", 'unable to parse requirement: <nil>: Invalid value: "/a": prefix part must be non-empty'),
        ("app=a/b", f'unable to parse requirement: values[0][app]: Invalid value: "a/b": {LABEL_WORDS}'),
    ],
)
def test_a_bad_label_selector_is_refused_in_kubernetes_words(text: str, words: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_label_selector(text)
    assert str(refused.value) == words


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ({"key": "a", "operator": "Near"}, '"Near" is not a valid label selector operator'),
        ({"key": "", "operator": "Exists"}, 'key: Invalid value: "": name part must be non-empty'),
        (
            {"key": "a", "operator": "Exists", "values": ["x"]},
            'values: Invalid value: ["x"]: values set must be empty for exists and does not exist',
        ),
    ],
)
def test_a_bad_expression_is_refused(expression: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError) as refused:
        LabelSelector.from_object({"matchExpressions": [expression]})
    assert str(refused.value).startswith(words)


paths = st.sampled_from(["metadata.name", "status.phase", "spec.nodeName"])
field_values = st.text(alphabet="ab,=\\!/ ", max_size=5)
asked_fields = st.tuples(paths, st.sampled_from(["=", "==", "!="]), field_values)


def escaped(value: str) -> str:
    return "".join(f"\\{char}" if char in "\\,=" else char for char in value)


@given(st.lists(asked_fields, max_size=3), st.dictionaries(paths, field_values))
def test_a_field_selector_matches_as_the_twin_does(
    asked: list[tuple[str, str, str]], fields: dict[str, str]
) -> None:
    selector = parse_field_selector(",".join(f"{path}{op}{escaped(value)}" for path, op, value in asked))
    expected = all((fields.get(path, "") == value) == (op != "!=") for path, op, value in asked)
    assert selector.matches(lambda path: fields.get(path, "")) == expected
    assert parse_field_selector(str(selector)) == selector


def test_a_field_selector_is_in_order_and_skips_empty_terms() -> None:
    selector = parse_field_selector(",status.phase!=Running,,metadata.name==x")
    assert selector == FieldSelector(
        (FieldRequirement("metadata.name", "x"), FieldRequirement("status.phase", "Running", equal=False))
    )
    assert selector.exact("metadata.name") == "x"
    assert selector.exact("status.phase") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name", "invalid selector: 'name'; can't understand 'name'"),
        ("a=b,c", "invalid selector: 'a=b,c'; can't understand 'c'"),
        ("a=b\\x", "invalid field selector: invalid escape sequence: \\x"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
        ("a=b=c", "invalid field selector: unescaped character in value: ="),
    ],
)
def test_a_bad_field_selector_is_refused_in_kubernetes_words(text: str, words: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_field_selector(text)
    assert str(refused.value) == words
