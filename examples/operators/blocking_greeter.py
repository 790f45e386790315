"""The operator of `greeter.py`, with handlers that block: kopf runs them in threads. The official client."""

import time

import kopf
import kubernetes

TIMEOUT_S = 20  # Without one, the official client waits for ever when an answer is lost.


@kopf.on.startup()
def connect(memo, **_):
    kubernetes.config.load_kube_config()
    memo.core = kubernetes.client.CoreV1Api()


@kopf.on.create("greetings.example.dev")
@kopf.on.update("greetings.example.dev", field="spec")
def make_cards(spec, name, namespace, memo, patch, meta, **_):
    for number in range(spec["copies"]):
        card = {"metadata": {"name": f"{name}-{number}"}, "data": {"message": spec["message"]}}
        kopf.adopt(card)
        create(memo.core, card, namespace)
        time.sleep(1)
    patch.status["cards"] = spec["copies"]
    patch.status["observedGeneration"] = meta["generation"]


def create(core, card, namespace):
    try:
        core.create_namespaced_config_map(namespace, card, _request_timeout=TIMEOUT_S)
    except kubernetes.client.ApiException as error:
        if error.status != 409:
            raise
        core.replace_namespaced_config_map(
            card["metadata"]["name"], namespace, card, _request_timeout=TIMEOUT_S
        )
