"""Searches in the cache find what a look at every object finds."""

from __future__ import annotations

from tests.ask.test_kept_cluster import Cluster
from tests.explain.builders import event, node, pod

from fathom.explain.evidence import HeldObjects, mentioning, newest_revision
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


def test_the_newest_revision_of_a_kind_is_that_of_its_newest_object() -> None:
    cluster = Cluster()
    assert newest_revision(cluster.objects(), "pods") == 0
    cluster.write("pods", "shop/a", pod("a"))
    cluster.write("pods", "shop/b", pod("b"))
    cluster.write("nodes", "n", node("n"))
    objects = cluster.objects()
    held = HeldObjects({"pods": objects.list("pods"), "nodes": objects.list("nodes")})
    for resource in ("pods", "nodes", "services"):
        assert newest_revision(objects, resource) == newest_revision(held, resource)
    assert newest_revision(objects, "nodes") == newest_revision(objects, "pods") + 1
    cluster.write("pods", "shop/b", None)
    assert newest_revision(cluster.objects(), "pods") == newest_revision(objects, "pods") - 1
