"""A small pod does not make its agent work with gigabytes: the agent serves all pods of its nodes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.agent.objects import pod

from fathom.agent.host.environment import Surroundings, Unresolved, environment
from fathom.agent.host.files import check_amounts
from fathom.agent.host.launch import expanded_words
from fathom.agent.variable_expansion import TOTAL_CHARS_MAX, WORD_CHARS_MAX, with_words
from fathom.model.objects import Obj


def around(**more: Any) -> Surroundings:
    return Surroundings(pod(), "127.128.0.2", "127.0.0.1", **more)


def doubling(levels: int) -> list[Obj]:
    """Each variable is twice the one before."""
    first = {"name": "V0", "value": "x" * 1000}
    return [first, *({"name": f"V{n}", "value": f"$(V{n - 1})" * 2} for n in range(1, levels))]


def test_variables_that_double_again_and_again_are_refused_by_name() -> None:
    env = environment({"env": doubling(6)}, around())
    assert len(env["V5"]) == 32_000
    with pytest.raises(Unresolved, match=f"^env V8 is longer than {WORD_CHARS_MAX} characters when expanded"):
        environment({"env": doubling(17)}, around())


def test_variables_that_are_too_much_together_are_refused() -> None:
    big = {"name": "BIG", "value": "x" * 100_000}
    many = [{"name": f"V{n}", "value": "$(BIG)"} for n in range(200)]
    with pytest.raises(Unresolved, match="the environment has more than"):
        environment({"env": [big, *many]}, around())
    whole: Obj = {"data": {"text": "x" * 100_000}}
    sources = [{"prefix": f"P{n}_", "configMapRef": {"name": "whole"}} for n in range(200)]
    with pytest.raises(Unresolved, match="the environment has more than"):
        environment({"envFrom": sources}, around(config_maps={"whole": whole}))
    assert (
        environment({"envFrom": sources[:10]}, around(config_maps={"whole": whole}))["P9_text"]
        == "x" * 100_000
    )


def test_words_of_a_command_are_bounded_alone_and_together() -> None:
    env = {"BIG": "x" * 100_000}
    assert expanded_words(["run", "$(BIG)", "$$(BIG)"], env) == ["run", "x" * 100_000, "$(BIG)"]
    with pytest.raises(Unresolved, match="the command is longer than"):
        expanded_words(["$(BIG)$(BIG)"], env)
    with pytest.raises(Unresolved, match="the command has more than"):
        expanded_words(["$(BIG)"] * (TOTAL_CHARS_MAX // 100_000 + 1), env)


def test_the_command_of_a_probe_that_would_be_too_long_stays_as_it_is() -> None:
    container = {"env": [{"name": "BIG", "value": "x" * 100_000}]}
    probe = {"exec": {"command": ["$(BIG)" * 1000]}}
    assert with_words(probe, container) == probe
    many = {"exec": {"command": ["$(BIG)"] * 1000}}
    assert with_words(many, container) == many
    few = {"exec": {"command": ["test", "$(BIG)"]}}
    assert with_words(few, container) == {"exec": {"command": ["test", "x" * 100_000]}}


def projections(count: int, **source: Obj) -> list[Obj]:
    return [{"name": "v", "projected": {"sources": [source] * count}}]


def items(count: int) -> list[Obj]:
    return [{"key": "k", "path": f"p{n}"} for n in range(count)]


ANNOTATIONS = {"path": "a", "fieldRef": {"fieldPath": "metadata.annotations"}}


@pytest.mark.parametrize(
    "volumes",
    [
        projections(80, secret={"name": "large"}),
        projections(20, configMap={"name": "wide"}),
        [{"name": f"v{n}", "secret": {"secretName": "large"}} for n in range(80)],
        [{"name": f"v{n}", "configMap": {"name": "wide"}} for n in range(20)],
        [
            {
                "name": "v",
                "configMap": {
                    "name": "wide",
                    "items": [{"key": "k1", "path": f"p{n}"} for n in range(20_000)],
                },
            }
        ],
        projections(
            80, downwardAPI={"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.annotations"}}] * 10}
        ),
    ],
)
def test_a_pod_does_not_name_one_object_so_often_that_its_agent_is_busy_with_it(volumes: list[Obj]) -> None:
    objects = around(
        config_maps={"wide": {"data": {f"k{n}": "v" for n in range(1000)}}},
        secrets={"large": {"data": {"k": "QUFB" * 250_000}}},
    )
    objects.pod["metadata"]["annotations"] = {"a": "x" * 200_000}
    with pytest.raises(Unresolved, match="the volumes of the pod"):
        check_amounts(volumes, objects)
    check_amounts(volumes[:5] if len(volumes) > 1 else projections(5, secret={"name": "large"}), objects)


def test_objects_that_are_not_there_are_left_to_who_makes_the_volume() -> None:
    check_amounts(projections(5, secret={"name": "missing"}), around())
