"""`kubectl get -w`: what changes, as it changes, for as long as somebody looks."""

from __future__ import annotations

import itertools
import json

import pytest
from tests.clients.kubectl import Kubectl, eventually, rows
from tests.clients.objects import config_map, pod
from tests.clients.running import Server

pytestmark = pytest.mark.kubectl


def test_a_watch_shows_what_is_there_then_every_change(kubectl: Kubectl) -> None:
    kubectl.create(config_map("first", a="1"))
    with kubectl.started("get cm -w --output-watch-events") as watch:
        watch.until("first")
        kubectl.create(config_map("second"))
        kubectl.ok("patch cm first -p", '{"data":{"b":"2"}}')
        kubectl.ok("delete cm second")
        shown = rows("\n".join(watch.lines(5)))
        assert [(row["EVENT"], row["NAME"], row["DATA"]) for row in shown] == [
            ("ADDED", "first", "1"),
            ("ADDED", "second", "0"),
            ("MODIFIED", "first", "2"),
            ("DELETED", "second", "0"),
        ]
        assert watch.running


def test_a_plain_watch_prints_headers_once(kubectl: Kubectl) -> None:
    with kubectl.started("get cm -w") as watch:
        kubectl.create(config_map("one"), config_map("two"))
        assert [line.split()[0] for line in watch.lines(3)] == ["NAME", "one", "two"]
        assert watch.running


def test_watch_only_leaves_out_what_was_there(kubectl: Kubectl) -> None:
    kubectl.create(config_map("old"), config_map("ticker"))
    ticks = itertools.count()
    with kubectl.started("get cm --watch-only -o name") as watch:

        def has_begun() -> bool:
            # Nothing tells when a silent watch has begun; a change that it sees does.
            kubectl.ok(f"annotate cm ticker tick={next(ticks)} --overwrite")
            return "ticker" in watch.so_far()

        eventually(has_begun)
        kubectl.create(config_map("new"))
        assert "configmap/old" not in watch.until("configmap/new")


def test_a_watch_by_labels_sees_objects_come_and_go(kubectl: Kubectl) -> None:
    kubectl.create(config_map("c", labels={"on": "no"}))
    with kubectl.started("get cm -l on=yes -w --output-watch-events") as watch:
        kubectl.create(config_map("marker", labels={"on": "yes"}))
        watch.until("marker")
        kubectl.ok("label cm c on=yes --overwrite")
        kubectl.ok("label cm c on=no --overwrite")
        kubectl.ok("label cm c on=never --overwrite")
        kubectl.ok("delete cm marker")
        shown = rows("\n".join(watch.lines(5)))
        assert [(row["EVENT"], row["NAME"]) for row in shown] == [
            ("ADDED", "marker"),
            ("ADDED", "c"),
            ("DELETED", "c"),
            ("DELETED", "marker"),
        ]


def test_a_watch_of_one_object_by_name(kubectl: Kubectl) -> None:
    kubectl.create(config_map("mine"), config_map("other"))
    with kubectl.started("get cm mine -w -o", 'jsonpath={.metadata.name}:{.data.v}{"\\n"}') as watch:
        watch.until("mine:")
        kubectl.ok("patch cm other -p", '{"data":{"v":"x"}}')
        kubectl.ok("patch cm mine -p", '{"data":{"v":"1"}}')
        kubectl.ok("patch cm mine -p", '{"data":{"v":"2"}}')
        assert watch.lines(3) == ["mine:", "mine:1", "mine:2"]


def test_a_watch_as_json_carries_whole_objects(kubectl: Kubectl) -> None:
    kubectl.create(config_map("c", v="1"))
    with kubectl.started("get cm c -w -o json --output-watch-events") as watch:
        watch.until("ADDED")
        kubectl.ok("delete cm c")
        added, deleted = (json.loads(line) for line in watch.lines(2))
    assert (added["type"], deleted["type"]) == ("ADDED", "DELETED")
    was, last = added["object"]["metadata"], deleted["object"]["metadata"]
    assert int(last["resourceVersion"]) > int(was["resourceVersion"])
    assert deleted["object"] == {**added["object"], "metadata": last}


def test_a_watch_over_all_namespaces_and_one_of_cluster_objects(
    kubectl: Kubectl, cluster: Kubectl, server: Server, namespace: str
) -> None:
    with kubectl.started("get pods -A -w") as pods, cluster.started("get ns -w") as namespaces:
        namespaces.until(namespace)
        kubectl.create(pod("seen"))
        assert pods.matching(r" seen ").split()[:2] == [namespace, "seen"]
        server.request("POST", "/api/v1/namespaces", {"metadata": {"name": f"{namespace}-b"}})
        namespaces.until(f"{namespace}-b")
        cluster.ok(f"delete ns {namespace}-b")
        namespaces.matching(rf"{namespace}-b +Terminating")


def test_a_request_timeout_ends_a_watch(kubectl: Kubectl) -> None:
    with kubectl.started("get cm -w --request-timeout=1s") as watch:
        assert watch.ended().code == 0
