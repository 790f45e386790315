"""What a pod asks for in all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.api.admission.world import asking, pod

from fathom.model.objects import Obj
from fathom.model.podresources import is_best_effort, pod_amounts


def cpu(spec: Obj, what: str = "requests") -> str:
    return str(pod_amounts({"spec": spec}, what).get("cpu"))


def sidecar(name: str, amount: str) -> Obj:
    return {**asking(name, cpu=amount), "restartPolicy": "Always"}


def test_containers_add_up_and_init_containers_take_turns() -> None:
    containers = [asking("a", cpu="1"), asking("b", cpu="500m")]
    assert cpu({"containers": containers}) == "1500m"
    assert (
        cpu({"containers": containers, "initContainers": [asking("i", cpu="1"), asking("j", cpu="1")]})
        == "1500m"
    )
    assert (
        cpu({"containers": containers, "initContainers": [asking("i", cpu="1"), asking("j", cpu="2")]}) == "2"
    )


def test_sidecars_run_beside_containers_and_beside_later_init_containers() -> None:
    containers = [asking("a", cpu="1")]
    assert cpu({"containers": containers, "initContainers": [sidecar("s", "1")]}) == "2"
    late = [asking("i", cpu="4"), sidecar("s", "1")]
    early = [sidecar("s", "1"), asking("i", cpu="4")]
    assert cpu({"containers": containers, "initContainers": late}) == "4"
    assert cpu({"containers": containers, "initContainers": early}) == "5"


def test_overhead_is_added_to_requests_and_to_limits_that_are_set() -> None:
    spec = {"containers": [asking(cpu="1")], "overhead": {"cpu": "250m"}}
    assert cpu(spec) == "1250m"
    assert cpu(spec, "limits") == "None"
    limited = {"containers": [asking(limits={"cpu": "1"})], "overhead": {"cpu": "250m"}}
    assert cpu(limited, "limits") == "1250m"


def test_what_is_said_for_the_whole_pod_counts() -> None:
    spec = {"containers": [asking(cpu="1")], "resources": {"requests": {"cpu": "3", "acme.com/x": "1"}}}
    assert {name: str(one) for name, one in pod_amounts({"spec": spec}, "requests").items()} == {"cpu": "3"}


milli = st.integers(0, 3000)


@given(st.lists(milli, max_size=3), st.lists(st.tuples(milli, st.booleans()), max_size=4))
def test_the_sum_is_the_most_that_runs_at_any_moment(main: list[int], init: list[tuple[int, bool]]) -> None:
    """The twin: play the pod's life."""
    running = peak = 0
    for amount, stays in init:
        peak = max(peak, running + amount)
        running += amount if stays else 0
    peak = max(peak, running + sum(main))
    spec = {
        "containers": [asking(f"c{at}", cpu=f"{amount}m") for at, amount in enumerate(main)],
        "initContainers": [
            sidecar(f"i{at}", f"{amount}m") if stays else asking(f"i{at}", cpu=f"{amount}m")
            for at, (amount, stays) in enumerate(init)
        ],
    }
    found = pod_amounts({"spec": spec}, "requests").get("cpu")
    assert (found.milli if found else 0) == peak


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({"name": "c"}, True),
        (asking(cpu="0"), True),
        (asking(others={"acme.com/gpu": "1"}), True),
        (asking(cpu="1m"), False),
        (asking(limits={"memory": "1"}), False),
    ],
)
def test_a_pod_that_asks_for_no_cpu_and_memory_is_best_effort(container: Obj, expected: bool) -> None:
    assert is_best_effort(pod(containers=[container])) is expected
    assert is_best_effort(pod(initContainers=[container])) is expected
