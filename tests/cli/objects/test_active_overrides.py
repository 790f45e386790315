"""What commands about objects say of overrides that are active for them."""

from __future__ import annotations

from typing import Any

from fathom.cli.objects.describe import why_lines
from fathom.cli.objects.rollout import Rollout, rollout_of

PAUSED = {
    "type": "Progressing",
    "status": "Unknown",
    "reason": "DeploymentPaused",
    "message": "Deployment is paused by the override calm",
}


def deployment(*conditions: dict[str, Any], updated: int) -> dict[str, Any]:
    status = {"observedGeneration": 1, "updatedReplicas": updated, "replicas": 2, "availableReplicas": 2}
    meta = {"name": "web", "generation": 1}
    return {"metadata": meta, "spec": {"replicas": 2}, "status": {**status, "conditions": list(conditions)}}


def test_a_rollout_that_an_override_pauses_says_so() -> None:
    waits = 'Waiting for deployment "web" rollout to finish: 0 out of 2 new replicas have been updated...'
    assert rollout_of(deployment(PAUSED, updated=0)) == Rollout(
        waits, paused="Deployment is paused by the override calm"
    )
    assert rollout_of(deployment(updated=0)) == Rollout(waits)
    done = Rollout('deployment "web" successfully rolled out', done=True)
    assert rollout_of(deployment(PAUSED, updated=2)) == done


def test_a_description_names_the_overrides_that_are_active() -> None:
    calm = {"name": "calm", "author": "ann", "endsIn": "9m", "changes": ["cordon"]}
    answer = {"summary": "Node n is as wanted", "subject": {"resource": "nodes"}, "activeOverrides": [calm]}
    assert why_lines(answer) == [
        "Why:",
        "  Node n is as wanted",
        "  override calm (by ann, ends in 9m) is active for this node: cordon",
    ]
    assert why_lines({"summary": "all is well"}) == ["Why:", "  all is well"]
