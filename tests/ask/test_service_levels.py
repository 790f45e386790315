"""A question about a Service goes to the gateway's endpoint: real connections, counted by a real proxy."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.api.harness import Api
from tests.ask.processes import OWN, AskedProcess, asked_server
from tests.gateway.test_proxy import answering, asked, free_port, proxy

from fathom.gateway.metrics import measure_proxy
from fathom.gateway.routes import RouteEndpoint, RouteListener
from fathom.model.objects import Obj

WHERE = f"{OWN}/namespaces/default/explanations"
TITLE = "error rate and SLO burn"


def question(kind: str, name: str, view: str = "") -> Obj:
    spec = {"subject": {"kind": kind, "name": name}, **({"view": view} if view else {})}
    return {"kind": "Explanation", "apiVersion": "fathom.dev/v1alpha1", "spec": spec}


async def lines_of(api: Api) -> list[str]:
    answer = await api.post(WHERE, question("Service", "web"))
    assert answer.status == 201, answer.obj
    (detail,) = [each for each in answer.obj["status"]["details"] if each["title"] == TITLE]
    lines: list[str] = detail["lines"]
    return lines


async def with_objects(api: Api) -> Obj:
    """A Service, and a Deployment whose pods it selects."""
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}}
    spec: Obj = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    meta = {"name": "web", "annotations": {"fathom.dev/slo": "99"}}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}
    await api.post("/apis/apps/v1/namespaces/default/deployments", deployment)
    service = {"metadata": meta, "spec": {"selector": labels, "ports": [{"port": 80}]}}
    created: Obj = (await api.post("/api/v1/namespaces/default/services", service)).obj
    return created


def test_the_answers_have_what_the_proxy_counted_and_no_data_when_the_gateway_is_gone(tmp_path: Path) -> None:
    async def story() -> None:
        async with asked_server(tmp_path) as (api, pki), answering(b"a", "127.64.0.1") as port:
            service = await with_objects(api)
            assert await lines_of(api) == [
                "no data: no gateway is registered, or the question is about the past"
            ]
            carrier = proxy([])
            gateway = AskedProcess("gateway", "gateway", tmp_path / "journal" / "gateway", pki)
            measure_proxy(gateway.registry.part("gateway"), carrier)
            await gateway.start(api)
            here = await free_port("127.97.0.9")
            pod = RouteEndpoint("127.64.0.1", port, "default/a")
            uid = service["metadata"]["uid"]
            listener = RouteListener("127.97.0.9", here, "default/web", endpoints=(pod,), service_uid=uid)
            await carrier.apply((listener,))
            assert await asked(here, b"x") == b"a heard x"
            async with asyncio.timeout(10):
                while "1 connections" not in (lines := await lines_of(api))[0]:
                    await asyncio.sleep(0.05)
            assert lines[0] == "last 5m: 0 of 1 connections failed (0.00%), SLO burn rate 0.0"
            assert lines[-1].startswith("source: connections counted by gateway, measured for")
            status = (await api.post(WHERE, question("Deployment", "web", "status"))).obj["status"]
            assert status["serviceLevels"]["default/web"]["value"]["errorRate"] == {"5m": 0.0, "1h": 0.0}
            await gateway.stop()
            assert await lines_of(api) == ["no data: process gateway does not answer"]
            await carrier.close()

    asyncio.run(asyncio.wait_for(story(), 60))
