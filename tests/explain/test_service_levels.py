"""Error rate and SLO burn of a Service: what the gateway says, and "no data" where it says nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.explain.evidence_of import deployment, evidence, explain, obj, pod, replica_set

from fathom.explain.evidence import ObjectRef, ProcessState
from fathom.explain.questions import STATUS, wanted
from fathom.explain.status import explain_status
from fathom.model.objects import Obj
from fathom.model.service_levels import ServiceLevel, WindowLevel


def service(name: str = "web", **spec: Any) -> Obj:
    whole = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 80}], **spec}
    return obj("Service", name, spec=whole)


def endpoint_slice() -> Obj:
    labels = {"kubernetes.io/service-name": "web"}
    endpoints = [{"addresses": ["10.0.0.7"], "conditions": {"ready": True}}]
    return obj(
        "EndpointSlice", "web-1", metadata={"labels": labels}, endpoints=endpoints, ports=[{"port": 80}]
    )


def gateway(*levels: tuple[Obj, WindowLevel, WindowLevel], answered: bool = True) -> ProcessState:
    services = {
        each["metadata"]["uid"]: msgspec.to_builtins(
            ServiceLevel(
                service="shop/web",
                windows={"5m": short, "1h": long},
                results={"reset": long.failed},
                measured_s=7200.0,
            )
        )
        for each, short, long in levels
    }
    return ProcessState(
        process="gateway", parts=("gateway",), answered=answered, state={"services": services}
    )


def lines_of(*processes: ProcessState) -> tuple[str, ...]:
    answer = explain(service(), pod("a"), endpoint_slice(), processes=processes)
    (group,) = [detail for detail in answer.details if detail.title == "error rate and SLO burn"]
    return group.lines


def test_why_says_the_error_rate_and_the_burn_of_each_window_with_their_source() -> None:
    assert lines_of(gateway((service(), WindowLevel(200, 1), WindowLevel(4000, 2)))) == (
        "last 5m: 1 of 200 connections failed (0.50%), SLO burn rate 5.0",
        "last 1h: 2 of 4000 connections failed (0.05%), SLO burn rate 0.5",
        "source: connections counted by gateway; objective 99.9 % from the default",
    )


def test_a_service_is_not_served_by_a_gateway_that_does_not_answer() -> None:
    """Its pod is ready and listed: only the gateway is wrong."""
    held = (pod("a"), endpoint_slice())
    answer = explain(service(), *held, processes=(gateway(answered=False),))
    assert (answer.as_wanted, answer.summary) == (
        False,
        "Service shop/web is not served: process gateway does not answer, so nothing connects its address to"
        " its pods. Change: start the gateway (a cluster operator)",
    )
    assert explain(service(), *held, processes=(gateway(answered=False), gateway())).as_wanted
    headless = service()
    headless["spec"] = {**headless["spec"], "clusterIP": "None"}
    assert explain(headless, *held, processes=(gateway(answered=False),)).as_wanted


@pytest.mark.parametrize(
    ("processes", "why"),
    [
        ((), "no gateway is registered, or the question is about the past"),
        ((gateway(answered=False),), "process gateway does not answer"),
        ((gateway(),), "process gateway does not measure this Service"),
    ],
)
def test_where_the_gateway_says_nothing_it_reads_no_data(
    processes: tuple[ProcessState, ...], why: str
) -> None:
    assert lines_of(*processes) == (f"no data: {why}",)


def test_a_service_that_uses_up_its_error_budget_is_not_as_wanted() -> None:
    state = gateway((service(), WindowLevel(100, 5), WindowLevel(400, 8)))
    answer = explain(service(), pod("a"), endpoint_slice(), processes=(state,))
    assert not answer.as_wanted
    assert answer.summary.startswith(
        "Service shop/web uses up its error budget: 5 of the last 100 connections failed within 5m, "
        "SLO burn rate 50.0; of those within 1h, the pods broke off 8 of them"
    )
    slow = gateway((service(), WindowLevel(100, 1), WindowLevel(4000, 8)))
    assert explain(service(), pod("a"), endpoint_slice(), processes=(slow,)).as_wanted


def test_status_has_the_levels_of_the_services_that_select_the_workloads_pods() -> None:
    api = deployment(1)
    own = replica_set(api, 1)
    web, other = service(), service("other", selector={"app": "other"})
    state = gateway(
        (web, WindowLevel(0, 0), WindowLevel(50, 1)), (other, WindowLevel(1, 1), WindowLevel(1, 1))
    )
    asked = evidence(api, own, pod("a", own), web, other, processes=(state,))
    (name, level) = next(iter(explain_status(asked).service_levels.items()))
    assert name == "shop/web"
    assert level.value["errorRate"] == {"5m": None, "1h": 0.02}
    assert level.value["burnRate"]["1h"] == pytest.approx(20)
    assert list(explain_status(asked).service_levels) == ["shop/web"]
    silent = explain_status(msgspec.structs.replace(asked, processes=(gateway(answered=False),)))
    assert silent.service_levels["shop/web"].value is None
    assert silent.service_levels["shop/web"].source == "process gateway does not answer"


def test_the_gateway_is_asked_about_the_services_of_a_workload() -> None:
    api, web = deployment(1), service()
    asked = evidence(api, web, service("other", selector={"app": "other"}))
    query = wanted(asked.subject, asked.objects, view=STATUS)
    assert ObjectRef("services", "shop", "web", web["metadata"]["uid"]) in query.objects
    assert [ref.name for ref in query.objects if ref.resource == "services"] == ["web"]
    assert query.objects[0].resource == "services", "of a workload with many pods, it must not be cut off"
