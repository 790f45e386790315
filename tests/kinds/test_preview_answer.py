"""The token of a preview, and whether the preview still holds."""

from __future__ import annotations

import msgspec

from fathom.kinds.preview_answer import (
    Moved,
    Touched,
    moved_since,
    preview_token,
    touched_object,
    tried_hash,
)
from fathom.model.objects import Obj


def override(**changes: object) -> Obj:
    return {
        "kind": "SchedulerOverride",
        "metadata": {"name": "tried", "namespace": "shop"},
        "spec": {"target": "workload/web", "changes": {"avoidZones": ["a"]}, **changes},
    }


def web(generation: int, uid: str = "u1") -> Obj:
    meta = {"name": "web", "namespace": "shop", "generation": generation, "uid": uid}
    return {"kind": "Deployment", "metadata": meta, "spec": {"replicas": 3}}


def node(**spec: object) -> Obj:
    return {"kind": "Node", "metadata": {"name": "node-1", "labels": {"zone": "a"}}, "spec": spec}


def preview_of(*objects: Obj) -> Obj:
    touched = [touched_object(str(obj["kind"]), obj) for obj in objects]
    return {"kind": "OverridePreview", "status": {"touched": msgspec.to_builtins(touched)}}


def test_the_hash_is_that_of_place_and_spec() -> None:
    annotated = {**override(), "metadata": {"name": "tried", "namespace": "shop", "annotations": {"a": "b"}}}
    elsewhere = {**override(), "metadata": {"name": "tried", "namespace": "other"}}
    reordered = {**override(), "spec": dict(reversed(override()["spec"].items()))}
    assert tried_hash(annotated) == tried_hash(override()) == tried_hash(reordered)
    assert tried_hash(elsewhere) != tried_hash(override())
    assert tried_hash(override(scope="cluster")) != tried_hash(override())
    assert preview_token(7, tried_hash(override())) == f"7-{tried_hash(override())}"


def test_a_preview_holds_while_generations_stay() -> None:
    status = {**web(4), "status": {"readyReplicas": 1}}
    assert moved_since(preview_of(web(4), node()), [status, node()]) == ()


def test_what_has_moved_is_told_by_name() -> None:
    preview = preview_of(web(4), node())
    cordoned = node(unschedulable=True)
    assert moved_since(preview, [web(5), cordoned]) == (
        Moved("Deployment", "shop", "web", "its generation was 4 and is 5"),
        Moved("Node", "", "node-1", "its labels or its spec have changed"),
    )
    assert moved_since(preview, [web(4, uid="u2")]) == (
        Moved("Deployment", "shop", "web", "it was deleted and created again"),
        Moved("Node", "", "node-1", "it is gone"),
    )


def test_an_object_with_a_generation_needs_no_digest() -> None:
    assert touched_object("Deployment", web(4)) == Touched("Deployment", "shop", "web", 4, "", "u1")
    assert touched_object("Node", node()).generation == 0
    assert touched_object("Node", node()).digest
