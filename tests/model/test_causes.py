"""One broken field in kube-apiserver's words: the form of the sentences."""

from __future__ import annotations

from typing import Any

import pytest

from fathom.model import causes
from fathom.model.errors import Cause


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", '"plain"'),
        ('a"b\\', '"a\\"b\\\\"'),
        ("tab\tline\n", '"tab\\tline\\n"'),
        ("\x00\x7f\u200b\U000e0001", '"\\x00\\x7f\\u200b\\U000e0001"'),
        ("é☃ <b>", '"é☃ <b>"'),
        (3, "3"),
        (True, "true"),
        (None, "null"),
        (1.5, "1.5"),
        (["a", 1], '["a",1]'),
        ({"b": "<&>", "a": {}}, '{"a":{},"b":"\\u003c\\u0026\\u003e"}'),
    ],
)
def test_values_are_shown_as_go_shows_them(value: Any, shown: str) -> None:
    assert causes.shown(value) == shown


@pytest.mark.parametrize(
    ("cause", "reason", "message"),
    [
        (causes.invalid("f", "x", "why"), "FieldValueInvalid", 'Invalid value: "x": why'),
        (causes.invalid("f", causes.OMITTED, "why"), "FieldValueInvalid", "Invalid value: why"),
        (causes.duplicate("f", 3), "FieldValueDuplicate", "Duplicate value: 3"),
        (causes.not_found("f", "x", "why"), "FieldValueNotFound", 'Not found: "x": why'),
        (
            causes.not_supported("f", "x", ("a", "b")),
            "FieldValueNotSupported",
            'Unsupported value: "x": supported values: "a", "b"',
        ),
        (causes.not_supported("f", "x", ()), "FieldValueNotSupported", 'Unsupported value: "x"'),
        (causes.required("f"), "FieldValueRequired", "Required value"),
        (causes.required("f", "why"), "FieldValueRequired", "Required value: why"),
        (causes.forbidden("f", "why"), "FieldValueForbidden", "Forbidden: why"),
        (causes.too_long("f", 1), "FieldValueTooLong", "Too long: may not be more than 1 byte"),
        (causes.too_long("f", 9), "FieldValueTooLong", "Too long: may not be more than 9 bytes"),
        (causes.too_many("f", 5, 1), "FieldValueTooMany", "Too many: 5: must have at most 1 item"),
        (causes.too_many("f", 5, 4), "FieldValueTooMany", "Too many: 5: must have at most 4 items"),
    ],
)
def test_each_kind_of_cause_has_its_sentence(cause: Cause, reason: str, message: str) -> None:
    assert cause == Cause("f", reason, message)


def test_some_causes_are_none() -> None:
    assert causes.not_negative("f", None) == causes.not_negative("f", 0) == []
    assert causes.not_negative("f", -1) == [causes.invalid("f", -1, "must be greater than or equal to 0")]
    assert causes.unchanged("f", 1, 1) == []
    assert causes.unchanged("f", 2, 1) == [causes.invalid("f", 2, "field is immutable")]
    assert [cause.message for cause in causes.each("f", "x", ["a", "b"])] == [
        'Invalid value: "x": a',
        'Invalid value: "x": b',
    ]
