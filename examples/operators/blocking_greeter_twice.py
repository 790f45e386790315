"""`blocking_greeter.py` with a bug that many operators have: generateName."""

import time

import kopf
import kubernetes

TIMEOUT_S = 20


@kopf.on.startup()
def connect(memo, **_):
    kubernetes.config.load_kube_config()
    memo.core = kubernetes.client.CoreV1Api()


@kopf.on.create("greetings.example.dev")
def make_cards(spec, name, namespace, memo, patch, meta, **_):
    for _number in range(spec["copies"]):
        card = {"metadata": {"generateName": f"{name}-"}, "data": {"message": spec["message"]}}
        kopf.adopt(card)
        memo.core.create_namespaced_config_map(namespace, card, _request_timeout=TIMEOUT_S)
        time.sleep(1)
    patch.status["cards"] = spec["copies"]
    patch.status["observedGeneration"] = meta["generation"]
