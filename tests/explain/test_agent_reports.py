"""What an agent writes into a pod's status is what `why` reads there."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.agent.objects import T0, alive, container, ended, pod, run, s
from tests.explain.builders import evidence, node, why

from fathom.agent.container_views import ContainerTrouble, ContainerView, Health
from fathom.agent.host.environment import Surroundings, Unresolved, environment
from fathom.agent.host.images import argv_of
from fathom.agent.runtime import Exit
from fathom.agent.status import PodPlace, pod_status
from fathom.explain.evidence import ObjectRef
from fathom.explain.why.pod import explain

Obj = dict[str, Any]

PLACE = PodPlace("10.0.0.7", "192.0.2.1")


def told(spec: Obj, view: ContainerView, *, after_s: float = 2, **objects: Any) -> str:
    """The cause, from a pod whose agent sees its one container so."""
    seen = pod(spec)
    seen["status"] = pod_status(seen, {"main": view}, PLACE, now_ns=s(after_s))
    case = evidence(pods=[seen], nodes=[node("n1")], **objects)
    subject = ObjectRef("pods", "default", "web")
    explanation = explain(subject, msgspec.structs.replace(case, subject=subject, now_ns=s(after_s)))
    assert not explanation.as_wanted
    assert explanation.stage == "not-ready"
    return explanation.summary


def not_started(reason: str, message: str) -> ContainerView:
    return ContainerView(trouble=ContainerTrouble(reason, message, T0))


def unresolved(spec: Obj, **objects: Any) -> str:
    with pytest.raises(Unresolved) as raised:
        environment(spec, Surroundings(pod(spec), "10.0.0.7", "192.0.2.1", **objects))
    return str(raised.value)


@pytest.mark.parametrize(
    ("kind", "field", "held", "cause", "change"),
    [
        ("configMapKeyRef", "config_maps", None, "key LEVEL of ConfigMap settings, which does not exist",
         "create ConfigMap settings with key LEVEL"),
        ("configMapKeyRef", "config_maps", {"data": {}},
         "key LEVEL of ConfigMap settings, which has no such key", "add key LEVEL to ConfigMap settings"),
        ("secretKeyRef", "secrets", None, "key LEVEL of Secret settings, which does not exist",
         "create Secret settings with key LEVEL"),
        ("secretKeyRef", "secrets", {"data": {}}, "key LEVEL of Secret settings, which has no such key",
         "add key LEVEL to Secret settings"),
    ],
)  # fmt: skip
def test_a_key_that_is_missing(kind: str, field: str, held: Obj | None, cause: str, change: str) -> None:
    reference = {kind: {"name": "settings", "key": "LEVEL"}}
    spec = container(env=[{"name": "LEVEL", "valueFrom": reference}])
    message = unresolved(spec, **{field: {"settings": held}})
    meta = {"metadata": {"namespace": "default", "name": "settings"}}
    objects: Any = {} if held is None else {field.replace("_", ""): [{**meta, **held}]}
    for said in (message, "nicht da"):  # What is missing is looked up.
        summary = told(spec, not_started("CreateContainerConfigError", said), **objects)
        assert f"container main needs {cause}" in summary
        assert f"Change: {change} (" in summary


def test_an_image_that_is_not_there() -> None:
    spec = container(image="nosuch:1")
    message = argv_of(spec, {})
    assert isinstance(message, str)
    assert "image 'nosuch:1' of container main cannot be pulled (ErrImageNeverPull: no local command" in (
        told(spec, not_started("ErrImageNeverPull", message))
    )


def finished(exit_: Exit, attempt: int = 1) -> ContainerView:
    return ContainerView(run=msgspec.structs.replace(run(attempt=attempt, crashes=attempt), exit=exit_))


def test_a_command_that_is_not_found() -> None:
    message = "executable file not found in $PATH (or not accessible to its user): nosuch"
    view = finished(Exit(127, s(1), reason="StartError", message=message))
    assert f"the command 'nosuch' of container main cannot be started: {message}" in (
        told(container(command=["nosuch"]), view)
    )


def test_a_container_that_was_killed_for_memory() -> None:
    spec = container(resources={"limits": {"memory": "64Mi"}})
    view = finished(Exit(137, s(1), 9, "OOMKilled", "memory peak 67104768 of the limit 67108864 bytes"))
    assert (
        "was killed for memory: its limit is 64Mi, memory peak 67104768 of the limit 67108864 bytes"
        " (restarted 1 time)"
    ) in told(spec, view)
    for reason, said in (("OOMKilled", "was killed for memory"), ("MemoryRefused", "out of memory")):
        assert f"{said}: its limit is 64Mi, zu viel" in told(
            spec, finished(Exit(137, s(1), 9, reason, "zu viel"))
        )


def test_a_container_that_its_liveness_probe_ended() -> None:
    spec = container(livenessProbe={"tcpSocket": {"port": 80}})
    view = finished(
        Exit(143, s(1), message="Container main failed liveness probe, will be restarted: refused")
    )
    assert "the liveness probe of container main fails, so it is restarted (restarted 1 time): refused" in (
        told(spec, view)
    )
    reworded = finished(Exit(143, s(1), reason="LivenessProbeFailed", message="keine Antwort"))
    assert "the liveness probe of container main fails, so it is restarted (restarted 1 time): keine" in (
        told(spec, reworded)
    )


def test_a_container_that_crashes() -> None:
    assert "container main ends with code 3 (restarted 1 time): no such table" in (
        told(container(), finished(Exit(3, s(1), message="no such table")))
    )
    assert "container main ends with code 3" in told(container(), ContainerView(run=ended(3)))


@pytest.mark.parametrize(
    ("health", "cause"),
    [
        (Health(started=True, said="readiness probe failed: HTTP 503"),
         "readiness probe of container main fails: HTTP 503"),
        (Health(started=True), "readiness probe of container main has not passed yet"),
    ],
)  # fmt: skip
def test_a_probe_that_does_not_pass(health: Health, cause: str) -> None:
    spec = container(readinessProbe={"httpGet": {"path": "/ready", "port": 80}})
    assert cause in told(spec, alive(health=health))


def test_a_container_that_has_not_started_yet() -> None:
    assert "is not ready: container main is being started" in told(container(), ContainerView())


def test_a_pod_whose_agent_reports_it_ready_is_well() -> None:
    seen = pod(container())
    seen["status"] = pod_status(seen, {"main": alive()}, PLACE, now_ns=s(2))
    case = evidence(
        "web", pods=[{**seen, "metadata": {**seen["metadata"], "namespace": "shop"}}], nodes=[node("n1")]
    )
    assert why(case).as_wanted
