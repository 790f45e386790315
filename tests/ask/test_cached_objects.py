"""Searches in the cache find what a look at every object finds."""

from __future__ import annotations

from tests.ask.test_kept_cluster import Cluster
from tests.explain.builders import event, node, pod

from fathom.explain.evidence import HeldObjects, mentioning
from fathom.explain.why.case import events_about
from fathom.model.objects import Key


def test_events_about_a_pod_are_found_by_their_text_and_no_others() -> None:
    cluster = Cluster()
    events = [event("Pulled", "ok", about=name) for name in ("web", "web-1", 'we"b')]
    for each in events:
        cluster.write("events", f"shop/{each['metadata']['name']}", each)
    other = event("Failed", "web")
    other["metadata"]["namespace"] = "other"
    cluster.write("events", "other/e", other)
    objects = cluster.objects()
    assert [each["involvedObject"]["name"] for each in mentioning(objects, "events", "shop", 'we"b')] == [
        'we"b'
    ]
    for name in ("web", "web-1", 'we"b', "nobody"):
        key, uid = Key("shop", name), f"uid-{name}"
        fresh = events_about(HeldObjects({"events": objects.list("events")}), key, uid)
        assert events_about(objects, key, uid) == fresh
        assert len(fresh) == (name != "nobody")


def test_the_last_change_of_a_kind_is_that_of_its_newest_object_or_a_later_deletion() -> None:
    cluster = Cluster()
    assert cluster.objects().last_change("pods") == 0
    cluster.write("pods", "shop/a", pod("a"))
    cluster.write("pods", "shop/b", pod("b"))
    cluster.write("nodes", "n", node("n"))
    objects = cluster.objects()
    held = HeldObjects({"pods": objects.list("pods"), "nodes": objects.list("nodes")})
    for resource in ("pods", "nodes", "services"):
        assert objects.last_change(resource) == held.last_change(resource)
    assert objects.last_change("nodes") == objects.last_change("pods") + 1
    cluster.write("pods", "shop/b", None)
    assert cluster.objects().last_change("pods") == objects.last_change("nodes") + 1
