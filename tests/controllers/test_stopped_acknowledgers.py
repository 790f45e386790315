"""Where neither controllers nor a scheduler run any more, the API server says so of every override."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.api.harness import Api, MovedClock, tell

from fathom.controllers.housekeeping.stopped_acknowledgers import StoppedAcknowledgers
from fathom.controllers.housekeeping.writer import HousekeepingWriter
from fathom.model.conditions import find_condition
from fathom.model.objects import Obj

OVERRIDES = "/apis/fathom.dev/v1alpha1/namespaces/default/scheduleroverrides"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/fathom-system/leases"


def override(name: str, **changes: Any) -> Obj:
    spec = {"target": "workload/web", "scope": "cluster", "reason": "why", "expiresAfter": "10m"}
    kind = {"apiVersion": "fathom.dev/v1alpha1", "kind": "SchedulerOverride"}
    return {**kind, "metadata": {"name": name}, "spec": {**spec, "changes": changes}}


def lease(name: str, renewed: str) -> Obj:
    spec = {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": f"2026-01-01T00:{renewed}Z"}
    return {"metadata": {"name": name}, "spec": spec}


async def degraded(api: Api, name: str) -> tuple[str, str] | None:
    conditions = (await api.get(f"{OVERRIDES}/{name}")).obj["status"].get("conditions") or ()
    condition = find_condition(conditions, "Degraded")
    return None if condition is None else (condition["status"], condition["message"])


def test_an_override_is_degraded_when_nobody_is_left_who_carries_it_out(tmp_path: Path) -> None:
    clock = MovedClock()

    async def story(api: Api) -> None:
        writer = HousekeepingWriter(api.parts.client, api.parts.decisions, "test")
        api_server = StoppedAcknowledgers(writer=writer, view=api.core.cache, clock=clock)
        given = override("calm", pauseAutoscaler=True, avoidZones=["a"]), override("lent", raisePriority=7)
        assert [(await api.post(OVERRIDES, each)).status for each in given] == [201, 201]
        await api_server.report()
        clock.move(minutes=1)
        await api_server.report()
        assert await degraded(api, "calm") is None, "nobody has stopped who never ran"
        for name in ("controllers", "scheduler", "elsewhere"):
            await api.post(LEASES, lease(name, "00:00.000000"))
        await api_server.report()
        clock.move(minutes=1)
        await api.patch(f"{LEASES}/scheduler", {"spec": {"renewTime": "2026-01-01T00:01:00.000000Z"}})
        await api_server.report()
        assert await degraded(api, "calm") is None, "the scheduler runs: it says so of the controllers"
        clock.move(minutes=1)
        await api_server.report()
        silent = "does not renew its lease: it may have stopped"
        assert await degraded(api, "calm") == ("True", f"scheduler, autoscaler {silent}")
        assert await degraded(api, "lent") == ("True", f"scheduler {silent}")

    tell(story, tmp_path, clock=clock)
