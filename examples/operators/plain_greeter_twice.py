"""`plain_greeter.py` with a bug that many operators have: generateName. What is created again is another
object."""

import time

import kubernetes
from urllib3.exceptions import HTTPError

GREETINGS = ("example.dev", "v1", "greetings")
TIMEOUT_S = 10


def main():
    kubernetes.config.load_kube_config()
    while True:
        try:
            follow(kubernetes.client.CustomObjectsApi(), kubernetes.client.CoreV1Api())
        except (kubernetes.client.ApiException, HTTPError) as error:
            print("trying again:", error, flush=True)
            time.sleep(1)


def follow(custom, core):
    listed = custom.list_cluster_custom_object(*GREETINGS, _request_timeout=TIMEOUT_S)
    for greeting in listed["items"]:
        make_cards(custom, core, greeting)
    events = kubernetes.watch.Watch().stream(
        custom.list_cluster_custom_object,
        *GREETINGS,
        resource_version=listed["metadata"]["resourceVersion"],
        timeout_seconds=TIMEOUT_S,
        _request_timeout=TIMEOUT_S + 2,
    )
    for event in events:
        if event["type"] in {"ADDED", "MODIFIED"}:
            make_cards(custom, core, event["object"])


def make_cards(custom, core, greeting):
    meta, spec = greeting["metadata"], greeting["spec"]
    wanted = {"cards": spec["copies"], "observedGeneration": meta["generation"]}
    if greeting.get("status") == wanted or "deletionTimestamp" in meta:
        return
    owner = {"apiVersion": "example.dev/v1", "kind": "Greeting", "name": meta["name"], "uid": meta["uid"]}
    for _ in range(spec["copies"]):
        card = {
            "metadata": {"generateName": f"{meta['name']}-", "ownerReferences": [owner]},
            "data": {"message": spec["message"]},
        }
        core.create_namespaced_config_map(meta["namespace"], card, _request_timeout=TIMEOUT_S)
    custom.patch_namespaced_custom_object_status(
        *GREETINGS[:2],
        meta["namespace"],
        GREETINGS[2],
        meta["name"],
        {"status": wanted},
        _request_timeout=TIMEOUT_S,
    )


if __name__ == "__main__":
    main()
