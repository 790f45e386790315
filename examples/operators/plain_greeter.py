"""The operator of `greeter.py` without a framework: a list, a watch, and the official synchronous client."""

import time

import kubernetes
from urllib3.exceptions import HTTPError

GREETINGS = ("example.dev", "v1", "greetings")
TIMEOUT_S = 10  # Without one, the official client waits for ever when an answer is lost.


def main():
    kubernetes.config.load_kube_config()
    while True:
        try:
            follow(kubernetes.client.CustomObjectsApi(), kubernetes.client.CoreV1Api())
        except (kubernetes.client.ApiException, HTTPError) as error:
            print("trying again:", error, flush=True)
            time.sleep(1)


def follow(custom, core):
    """List, then watch from there. Whatever fails, the next list has it again."""
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
    meta, copies = greeting["metadata"], greeting["spec"]["copies"]
    wanted = {"cards": copies, "observedGeneration": meta["generation"]}
    if greeting.get("status") == wanted or "deletionTimestamp" in meta:
        return
    for number in range(copies):
        create(core, meta["namespace"], card_of(greeting, number))
    custom.patch_namespaced_custom_object_status(
        *GREETINGS[:2],
        meta["namespace"],
        GREETINGS[2],
        meta["name"],
        {"status": wanted},
        _request_timeout=TIMEOUT_S,
    )


def card_of(greeting, number):
    """Named after its owner: who makes it again is told that it exists."""
    return {
        "metadata": {
            "name": f"{greeting['metadata']['name']}-{number}",
            "ownerReferences": [owner(greeting)],
        },
        "data": {"message": greeting["spec"]["message"]},
    }


def owner(greeting):
    meta = greeting["metadata"]
    return {"apiVersion": "example.dev/v1", "kind": "Greeting", "name": meta["name"], "uid": meta["uid"]}


def create(core, namespace, card):
    try:
        core.create_namespaced_config_map(namespace, card, _request_timeout=TIMEOUT_S)
    except kubernetes.client.ApiException as error:
        if error.status != 409:
            raise
        core.replace_namespaced_config_map(
            card["metadata"]["name"], namespace, card, _request_timeout=TIMEOUT_S
        )


if __name__ == "__main__":
    main()
