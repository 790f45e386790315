"""An operator as people write them with kopf: every Plant gets a ConfigMap that says how it is watered.

Run by `kopf run`, not imported. The child is made with lightkube; everything else is kopf's own doing:
finalizers, progress annotations, statuses, events.
"""

from __future__ import annotations

from typing import Any

import kopf
from lightkube import ApiError, Client
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap

KIND = ("garden.example.com", "v1", "plants")


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.posting.loggers = True  # What handlers log becomes an Event.
    # An operator that gave up, waited for long, or left slowly would make a poor test.
    settings.networking.error_backoffs = [0.1, 0.2, *[0.5] * 100]
    settings.watching.reconnect_backoff = 0.1
    settings.queueing.error_delays = [0.1, 0.2, 0.5, 1]
    settings.queueing.exit_timeout = 0.2
    # One handler at a time: several that made TLS clients in threads have crashed the interpreter (SIGSEGV).
    settings.execution.max_workers = 1


@kopf.on.resume(*KIND)
@kopf.on.create(*KIND)
def planted(*, spec: Any, body: Any, name: str, patch: kopf.Patch, reason: str, **_: Any) -> dict[str, str]:
    child: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{name}-care"}}
    kopf.adopt(child, owner=body)
    water(child, spec.get("size", 1))
    patch.status["phase"] = "Growing"
    kopf.info(body, reason="Planted", message=f"after {reason}")
    return {"child": child["metadata"]["name"]}


def water(child: dict[str, Any], size: int) -> None:
    made = ConfigMap(metadata=ObjectMeta.from_dict(child["metadata"]), data={"litres": str(size)})
    with Client(namespace=child["metadata"]["namespace"]) as kube:
        create(kube, made)
        kube.patch(ConfigMap, made.metadata.name, {"data": made.data})


def create(kube: Any, obj: Any) -> None:
    """Handlers may be called again for what they have done already."""
    try:
        kube.create(obj)
    except ApiError as error:
        if error.status.reason != "AlreadyExists":
            raise


@kopf.on.update(*KIND, field="spec.size")
def grown(*, name: str, namespace: str | None, old: Any, new: Any, patch: kopf.Patch, **others: Any) -> None:
    with Client(namespace=namespace) as kube:
        kube.patch(ConfigMap, f"{name}-care", {"data": {"litres": str(new)}})
    patch.status["grown"] = f"{old} to {new}"
    others["logger"].info("It grew from %s to %s.", old, new)


@kopf.on.delete(*KIND)
def dug_out(*, name: str, namespace: str | None, **_: Any) -> None:
    """Leaves a trace that nobody owns."""
    with Client(namespace=namespace) as kube:
        create(kube, ConfigMap(metadata=ObjectMeta(name=f"{name}-remembered")))


@kopf.timer(*KIND, interval=0.3)
def days(*, patch: kopf.Patch, status: Any, **_: Any) -> None:
    patch.status["days"] = status.get("days", 0) + 1


@kopf.on.create(*KIND, retries=3, backoff=0.1, id="stubborn")
def stubborn(*, retry: int, spec: Any, patch: kopf.Patch, **_: Any) -> None:
    """Fails at first where the spec says so: kopf remembers that in the object itself."""
    if retry < spec.get("failures", 0):
        raise kopf.TemporaryError("not yet", delay=0.1)
    patch.status["tries"] = retry + 1
