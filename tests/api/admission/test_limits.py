"""Limit ranges fill in what containers leave out and refuse what is out of bounds, all of it at once."""

from __future__ import annotations

import pytest
from tests.api.admission.world import KINDS, World, asking, create, obj, pod, refusal, update

from fathom.api.admission.attempt import Admitted
from fathom.api.admission.chain import Chain
from fathom.api.admission.limits import LimitRanger
from fathom.model.objects import Obj

CHAIN = Chain([LimitRanger()])


def limited(*items: Obj, name: str = "limits") -> Obj:
    return obj("LimitRange", name, spec={"limits": list(items)})


def per_container(**bounds: Obj) -> Obj:
    return limited({"type": "Container", **bounds})


def faults(limit_range: Obj, new: Obj) -> str:
    error = refusal(CHAIN, World(limit_range), new)
    assert (error.code, error.reason) == (403, "Forbidden")
    prefix = f'{KINDS[new["kind"]].resource} "{new["metadata"]["name"]}" is forbidden: '
    assert error.message.startswith(prefix)
    return error.message.removeprefix(prefix)


def test_defaults_are_filled_in_and_told_in_an_annotation() -> None:
    world = World(per_container(default={"cpu": "2", "memory": "1Gi"}, defaultRequest={"cpu": "1"}))
    admitted = create(
        CHAIN, world, pod(containers=[asking("a"), asking("b", cpu="3")], initContainers=[{"name": "i"}])
    )
    assert admitted.obj is not None
    full = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}
    assert admitted.obj["spec"] == {
        "containers": [
            {"name": "a", "resources": full},
            {"name": "b", "resources": {**full, "requests": {"cpu": "3", "memory": "1Gi"}}},
        ],
        "initContainers": [{"name": "i", "resources": full}],
    }
    assert admitted.obj["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu, memory request for container a; "
        "cpu, memory limit for container a; memory request for container b; "
        "cpu, memory limit for container b; cpu, memory request for init container i; "
        "cpu, memory limit for init container i"
    }


def test_defaults_fall_back_to_the_bounds() -> None:
    world = World(per_container(max={"cpu": "2"}, min={"cpu": "1", "memory": "1Mi"}))
    admitted = create(CHAIN, world, pod())
    assert admitted.obj is not None
    assert admitted.obj["spec"]["containers"] == [
        {"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Mi"}, "limits": {"cpu": "2"}}}
    ]


def test_a_pod_that_says_everything_is_left_alone() -> None:
    world = World(per_container(default={"cpu": "2"}))
    said = pod(containers=[asking(cpu="1", limits={"cpu": "1"})])
    assert create(CHAIN, world, said) == Admitted(said)
    assert create(CHAIN, World(), pod()) == Admitted(pod())


def test_several_limit_ranges_add_up() -> None:
    world = World(
        limited({"type": "Container", "default": {"cpu": "1"}}, name="a"),
        limited({"type": "Container", "default": {"cpu": "2", "memory": "1Mi"}}, name="b"),
    )
    admitted = create(CHAIN, world, pod())
    assert admitted.obj is not None
    assert admitted.obj["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1", "memory": "1Mi"}
    assert admitted.obj["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c; "
        "memory request for container c; memory limit for container c"
    )


@pytest.mark.parametrize(
    ("bounds", "container", "words"),
    [
        (
            {"min": {"cpu": "1"}},
            asking(cpu="999m"),
            "minimum cpu usage per Container is 1, but request is 999m",
        ),
        (
            {"min": {"cpu": "1"}},
            asking(cpu="1", limits={"cpu": "500m"}),
            "minimum cpu usage per Container is 1, but limit is 500m",
        ),
        (
            {"max": {"memory": "1Gi"}},
            asking(memory="1Mi", limits={"memory": "1025Mi"}),
            "maximum memory usage per Container is 1Gi, but limit is 1025Mi",
        ),
        (
            {"max": {"cpu": "1"}},
            asking(cpu="2", limits={"cpu": "1"}),
            "maximum cpu usage per Container is 1, but request is 2",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            asking(cpu="100m", limits={"cpu": "201m"}),
            "cpu max limit to request ratio per Container is 2, but provided ratio is 2.010000",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            asking(limits={"cpu": "1"}),
            "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            asking(cpu="1"),
            "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0",
        ),
        (
            {"min": {"cpu": "1"}, "max": {"memory": "1Mi"}},
            asking(cpu="500m", memory="2Mi", limits={"memory": "2Mi"}),
            "[minimum cpu usage per Container is 1, but request is 500m, "
            "maximum memory usage per Container is 1Mi, but limit is 2Mi]",
        ),
    ],
)
def test_a_container_out_of_bounds_is_refused(bounds: Obj, container: Obj, words: str) -> None:
    assert faults(per_container(**bounds), pod(containers=[container])) == words


def test_the_ratio_itself_is_allowed() -> None:
    world = World(per_container(maxLimitRequestRatio={"cpu": "1500m"}))
    exact = pod(containers=[asking(cpu="2", limits={"cpu": "3"})])
    assert create(CHAIN, world, exact) == Admitted(exact)


def test_the_same_fault_is_said_once() -> None:
    two = pod(containers=[asking("a", cpu="1m"), asking("b", cpu="1m")])
    assert (
        faults(per_container(min={"cpu": "1"}), two)
        == "minimum cpu usage per Container is 1, but request is 1m"
    )


def test_a_pod_is_held_against_the_sum_of_its_containers() -> None:
    per_pod = limited({"type": "Pod", "max": {"cpu": "2"}, "min": {"cpu": "1"}})
    one = asking("a", cpu="1", limits={"cpu": "1500m"})
    words = "maximum cpu usage per Pod is 2, but limit is 3"
    assert faults(per_pod, pod(containers=[one, {**one, "name": "b"}])) == words
    assert faults(per_pod, pod()) == (
        "[minimum cpu usage per Pod is 1.  No request is specified, "
        "maximum cpu usage per Pod is 2.  No limit is specified]"
    )
    assert create(CHAIN, World(per_pod), pod(containers=[one])) == Admitted(pod(containers=[one]))


def claim(storage: str) -> Obj:
    return obj("PersistentVolumeClaim", "data", spec={"resources": {"requests": {"storage": storage}}})


def test_a_claim_is_held_against_its_bounds_also_when_it_grows() -> None:
    bounds = limited({"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}})
    assert faults(bounds, claim("1Mi")) == (
        "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"
    )
    assert faults(bounds, claim("3Gi")) == (
        "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"
    )
    assert refusal(CHAIN, World(bounds), claim("3Gi"), claim("2Gi")).code == 403
    assert create(CHAIN, World(bounds), claim("2Gi")) == Admitted(claim("2Gi"))


def test_a_pod_that_is_there_already_is_not_judged_again() -> None:
    world = World(per_container(max={"cpu": "1"}))
    old = pod(containers=[asking(cpu="5")])
    assert update(CHAIN, world, old, old) == Admitted(old)
