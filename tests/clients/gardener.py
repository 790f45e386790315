"""A kopf operator: for every Plant it keeps a ConfigMap, waters it now and then, and says goodbye.

Run by the tests as a process of its own: `kopf run --standalone --namespace NS gardener.py`.
"""

from __future__ import annotations

from typing import Any

import kopf
import kubernetes


def _api() -> Any:
    kubernetes.config.load_kube_config()
    return kubernetes.client.CoreV1Api()


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.posting.enabled = True
    settings.watching.server_timeout = 60


@kopf.on.resume("garden.example.com", "v1", "plants")
@kopf.on.create("garden.example.com", "v1", "plants")
def planted(spec: Any, name: str, namespace: str | None, body: Any, **_: Any) -> dict[str, str]:
    pot: dict[str, Any] = {"metadata": {"name": f"pot-{name}"}, "data": {"colour": spec["colour"]}}
    kopf.adopt(pot, owner=body)
    try:
        _api().create_namespaced_config_map(namespace, pot)
    except kubernetes.client.ApiException as error:
        if error.status != 409:
            raise
    kopf.info(body, reason="Planted", message=f"in pot-{name}")
    return {"pot": f"pot-{name}"}


@kopf.on.update("garden.example.com", "v1", "plants", field="spec.colour")
def repainted(new: Any, name: str, namespace: str | None, **_: Any) -> None:
    _api().patch_namespaced_config_map(f"pot-{name}", namespace, {"data": {"colour": new}})


@kopf.on.delete("garden.example.com", "v1", "plants")
def uprooted(name: str, namespace: str | None, **_: Any) -> None:
    farewell = {"metadata": {"name": f"farewell-{name}"}}
    try:
        _api().create_namespaced_config_map(namespace, farewell)
    except kubernetes.client.ApiException as error:
        if error.status != 409:
            raise


@kopf.timer("garden.example.com", "v1", "plants", interval=0.3)
def watered(status: Any, patch: Any, **_: Any) -> None:
    patch.status["watered"] = int(status.get("watered", 0)) + 1
