"""Errors: as many words as help, whatever was sent."""

from __future__ import annotations

from fathom.model.errors import CAUSE_CHARS_MAX, CAUSES_MAX, Cause, invalid


def causes(count: int) -> list[Cause]:
    return [Cause(f"spec.items[{at}]", "FieldValueRequired", "Required value") for at in range(count)]


def test_all_causes_are_told_up_to_a_hundred() -> None:
    error = invalid(group="", kind="Pod", name="a", causes=causes(CAUSES_MAX))
    assert len(error.details["causes"]) == CAUSES_MAX
    assert error.message.endswith("spec.items[99]: Required value]")


def test_of_more_causes_the_number_is_told() -> None:
    error = invalid(group="apps", kind="Deployment", name="a", causes=causes(500_000))
    assert len(error.details["causes"]) == CAUSES_MAX
    assert error.message.endswith("spec.items[99]: Required value, and 499900 more]")
    assert len(error.message) < 10_000


def test_a_long_value_is_cut() -> None:
    said = f'Invalid value: "{"x" * 1_000_000}": too long'
    error = invalid(group="", kind="Pod", name="a", causes=[Cause("spec", "FieldValueInvalid", said)])
    [cause] = error.details["causes"]
    assert cause == {
        "reason": "FieldValueInvalid",
        "message": f"{said[: CAUSE_CHARS_MAX - 3]}...",
        "field": "spec",
    }
