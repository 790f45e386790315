"""Persistent contents: equal to plain dictionaries, shared by snapshots, sorted whatever the hash seed."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.cache.contents import Draft
from fathom.model.objects import Key, Obj

NAMES = st.sampled_from([Key(namespace, name) for namespace in "xy" for name in "abc"])
VALUES = st.lists(st.sampled_from("123"), max_size=3).map(tuple)
STEPS = st.lists(st.tuples(NAMES, st.none() | VALUES, st.booleans()), max_size=40)


def values_of(obj: Obj) -> Any:
    return obj["values"]


@given(STEPS)
def test_contents_equal_an_obvious_model_and_old_ones_never_change(steps: list[Any]) -> None:
    draft = Draft({"values": values_of})
    model: dict[Key, Obj] = {}
    taken = []
    for key, values, look in steps:
        old = draft.get(key)
        if values is not None:
            draft.put(key, old, {"values": values})
            model[key] = {"values": values}
        elif old is not None:
            draft.remove(key, old)
            del model[key]
        if look:
            taken.append((draft.contents(), dict(model)))
    taken.append((draft.contents(), model))
    for contents, expected in taken:
        assert contents.keys() == tuple(sorted(expected))
        assert contents.all() == [expected[key] for key in sorted(expected)]
        for value in "123":
            under = [expected[key] for key in sorted(expected) if value in expected[key]["values"]]
            assert contents.found("values", value) == under
            assert contents.count("values", value) == len(under)
        assert contents.values("values") == sorted({v for obj in expected.values() for v in obj["values"]})
        for namespace in "xy":
            inside = [expected[key] for key in sorted(expected) if key.namespace == namespace]
            assert contents.found("namespace", namespace) == inside


def test_an_unknown_index_is_named_with_those_there_are() -> None:
    with pytest.raises(KeyError, match="no index 'zone': there are namespace, node"):
        Draft({"node": values_of}).contents().found("zone", "a")


def test_nobody_can_redefine_the_namespace() -> None:
    with pytest.raises(ValueError, match="the index 'namespace' is always there"):
        Draft({"namespace": values_of})


ORDER = """
from fathom.cache.contents import Draft
from fathom.model.objects import Key
draft = Draft({"all": lambda obj: ("x",)})
for number in range(300):
    draft.put(Key(f"n{number % 7}", f"p{number * 7919 % 300}"), None, {"n": number})
print(draft.contents().keys(), draft.contents().found("all", "x"), draft.contents().values("namespace"))
"""


@pytest.mark.live
def test_the_order_of_everything_is_the_same_under_every_hash_seed() -> None:
    def printed(seed: str) -> str:
        ran = subprocess.run(
            [sys.executable, "-c", ORDER], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        )
        return ran.stdout.decode()

    assert printed("1") == printed("2") != ""
