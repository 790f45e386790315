"""A client that writes fields which are not its own, writes from an old read, or creates what exists: the
server accepts what is allowed, and refuses the rest."""

from __future__ import annotations

from fathom.model.body import encode_json
from fathom.model.objects import Key, Obj, metadata, with_metadata
from fathom.model.resources import SERVICES
from fathom.seams.seam import Ask
from fathom.sim.scenarios.basics import CONFIG_MAPS
from fathom.sim.world.world import World

NAME = "meddled"
KEY = Key("default", NAME)
LONG_AGO = "2020-01-01T00:00:00Z"


class InterferingUser:
    def __init__(self, world: World) -> None:
        self._world = world
        self._before: Obj | None = None  # As it was some time ago.

    async def meddle(self) -> None:
        """One of these writes, with all of the object changed."""
        world, rng = self._world, self._world.rng
        current = world.get(SERVICES.name, KEY)
        if current is None:
            await world.apply(SERVICES, _service(0))
            return
        number = rng.randrange(1000)
        changed = _changed(current, number)
        match rng.randrange(6):
            case 0:
                await world.api.update(SERVICES, "default", changed, subresource="status")
            case 1:
                await world.api.update(SERVICES, "default", changed)
            case 2:
                await world.api.create(SERVICES, "default", _service(number))
            case 3:
                await world.api.update(SERVICES, "default", _changed(self._before or current, number))
            case 4:
                await self._delete(self._before or current)
            case _:
                await world.api.patch(CONFIG_MAPS, "default", "x00", {"data": {"a": None, "b": str(number)}})
                await world.api.patch(CONFIG_MAPS, "default", "x00", {"data": {"b": None, "a": str(number)}})
        if rng.random() < 0.5:
            self._before = current

    async def _delete(self, meant: Obj) -> None:
        """Only if the object is still as it was."""
        meta = metadata(meant)
        body = {"preconditions": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}}
        ask = Ask("DELETE", SERVICES.path("default", NAME), encode_json(body))
        assert self._world._driver is not None
        await self._world._driver.seam.request(ask, timeout_s=10.0)


def _service(number: int) -> Obj:
    spec = {"type": "LoadBalancer", "selector": {"number": str(number)}, "ports": [{"port": 80}]}
    return {"metadata": {"name": NAME}, "spec": spec}


def _changed(service: Obj, number: int) -> Obj:
    status = {"loadBalancer": {"ingress": [{"ip": f"10.1.0.{number % 250}"}]}}
    spec = {**service["spec"], "selector": {"number": str(number)}}
    meta = {"labels": {"number": str(number)}, "creationTimestamp": LONG_AGO, "generation": 99}
    return {**with_metadata(service, **meta), "spec": spec, "status": status}
