"""YAML bodies: the same values as Kubernetes' reader makes of them, and nothing that could hurt."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.kube.definitions.parse import MalformedBody, duplicates
from fathom.kube.definitions.yaml import ALIASED_MAX, from_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# nothing", None),
        ("a: 1", {"a": 1}),
        ("a: [1, -2, 0x1f, 0b11, 017, 0o17, 1_000, +5]", {"a": [1, -2, 31, 3, 15, 15, 1000, 5]}),
        ("a: [1.5, .5, 1e3, 08]", {"a": [1.5, 0.5, 1000.0, 8.0]}),
        ("a: [true, yes, On, y, false, no, OFF, N]", {"a": [True] * 4 + [False] * 4}),
        ("a: ['yes', \"1\", 'null']", {"a": ["yes", "1", "null"]}),
        ("a: [null, ~, ]", {"a": [None, None]}),
        ("a: 2024-01-01\nb: 12:30:45\nc: 1.2.3", {"a": "2024-01-01", "b": "12:30:45", "c": "1.2.3"}),
        ("a: !!str 5\nb: !!int 7\nc: !!binary aGk=", {"a": "5", "b": 7, "c": "aGk="}),
        ("1: a\ntrue: b\nx: c", {"1": "a", "true": "b", "x": "c"}),
        ("a: |\n  one\n  two\n", {"a": "one\ntwo\n"}),
        ("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}),
        ("a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}", {"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 3}}),
        ("a: {<<: [{b: 1}, {b: 2, c: 3}]}", {"a": {"b": 1, "c": 3}}),
        ("---\na: 1\n...\n", {"a": 1}),
        ("a: !!set {b, c}", {"a": {"b": None, "c": None}}),
    ],
)
def test_values_are_those_of_kubernetes_reader(text: str, value: Any) -> None:
    assert from_yaml(text.encode()) == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: 1\n---\nb: 2", "one YAML document"),
        ("a: [", "error converting YAML to JSON: yaml: line 2"),
        ("a: b: c", "mapping values are not allowed"),
        ("? [a]\n: 1", "a key must be a string, not array"),
        ("? {a: 1}\n: 1", "a key must be a string, not object"),
        ("~: 1", "a key must be a string, not null"),
        ("1.5: a", "a key must be a string, not number"),
        ("a: *nobody", "found undefined alias|unknown anchor"),
        ("a: &a [*a]", "unknown anchor"),
        ("a: .inf", "cannot be represented in JSON"),
        ("a: .nan", "cannot be represented in JSON"),
        ("a: 1e999", "out of range"),
        ("a: 18446744073709551616", "does not fit into 64 bits"),
        ("a: " + "9" * 5000, "does not fit into 64 bits"),
        ("a: !!int x", "cannot decode"),
        ("a: !!python/object/apply:os.system ['x']\nb: !!python/name:os.system x", "cannot decode"),
        ("a: !!binary '!'", "illegal base64"),
        ("a: {<<: 5}", "map merge requires"),
        ("[" * 300 + "]" * 300, "exceeded max depth"),
        ("[" * 200_000, "exceeded max depth"),
        ("[" + "a," * 100_000 + "]", "more than 50000 values"),
        ("a: \x00", "yaml"),
        ('a: "\\uD800"', "."),
    ],
)
def test_what_no_object_can_be_made_of_is_refused(text: str, why: str) -> None:
    with pytest.raises(MalformedBody, match=why):
        from_yaml(text.encode())


def test_bytes_that_are_no_utf8_are_refused() -> None:
    with pytest.raises(MalformedBody, match="invalid UTF-8"):
        from_yaml(b"a: \xff")


def test_a_few_aliases_cannot_stand_for_billions_of_nodes() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 12)]
    with pytest.raises(MalformedBody, match="excessive aliasing"):
        from_yaml("\n".join(lines).encode())


def test_a_long_text_cannot_be_multiplied_by_aliases() -> None:
    text = f"a: &a {'x' * 20_000}\nb: [{', '.join(['*a'] * 20)}]"
    assert 2 * len(text) + ALIASED_MAX < 20 * 20_000
    with pytest.raises(MalformedBody, match="excessive aliasing"):
        from_yaml(text.encode())


def test_fields_given_twice_are_remembered() -> None:
    value = from_yaml(b"a: 1\nb: [{c: 1, c: 2}]\na: 3")
    assert value == {"a": 3, "b": [{"c": 2}]}
    assert list(duplicates(value)) == ["a", "b[0].c"]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@given(json_values)
def test_json_is_yaml(value: Any) -> None:
    # YAML's reader takes few characters literally: escaped, they all pass.
    text = json.dumps(value, ensure_ascii=True)
    if "\\ud" in text.lower() or "<<" in text:  # Pairs of surrogates, and merges, are YAML's own business.
        return
    assert from_yaml(text.encode()) == value


@given(st.text(max_size=40) | st.text(alphabet="ab:-[]{}&*!<>|#'\"\n ,?~0", max_size=40))
def test_nothing_but_a_refusal_comes_of_strange_text(text: str) -> None:
    with suppress(MalformedBody):
        json.dumps(from_yaml(text.encode(errors="surrogatepass")), allow_nan=False)
