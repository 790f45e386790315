"""Overrides and fights on the page Now: an incident in which somebody steers, and somebody else disagrees."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect
from tests.cluster.living import Cluster
from tests.web.people import OPERATOR
from tests.web.pictures import Pictures
from tests.web.raw import raw
from tests.web.workloads import deployment, too_big

from fathom.model.objects import Obj

pytestmark = pytest.mark.live

PageAs = Callable[..., Page]
OWN = "/apis/fathom.dev/v1alpha1"
ROUNDS_MAX = 60


def override(name: str, target: str, reason: str, **changes: object) -> Obj:
    spec = {"target": target, "scope": "cluster", "reason": reason, "expiresAfter": "20m", "changes": changes}
    return {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "SchedulerOverride",
        "metadata": {"name": name},
        "spec": spec,
    }


def test_now_shows_an_incident_with_overrides_and_a_fight(
    cluster: Cluster, namespace: str, page_as: PageAs, pictures: Pictures
) -> None:
    apps = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    cluster.ask("POST", apps, deployment("checkout", replicas=3, cpu="100m"))
    cluster.ask("POST", apps, deployment("search", replicas=4, cpu="50m"))
    cluster.ask("POST", apps, too_big("risk-api"))
    overrides = f"{OWN}/namespaces/{namespace}/scheduleroverrides"
    reason = "the new version answers with errors: no further rollout while we look"
    cluster.ask(
        "POST", overrides, override("hold-checkout", "deployment/checkout", reason, pauseRollout=True)
    )
    cluster.patch("/api/v1/nodes/node-1", {"spec": {"unschedulable": True}})
    try:
        page = page_as("admin")
        row = page.locator(".override-row", has_text="hold-checkout")
        expect(row.locator(".state-word")).to_have_text("Active")
        expect(row).to_contain_text(reason)
        expect(row.locator(".override-acks")).to_have_text(re.compile(r"^(\d+) of \1 acknowledged$"))
        expect(row.locator(".countdown")).to_have_text(re.compile(r"^ends in 1\d:\d\d$"))
        fight(cluster, f"{apps}/search", lambda: page.locator(".fight-row").count() > 0)
        shown = page.locator(".fight-row", has_text=f"{namespace}/search")
        expect(shown).to_contain_text("spec.replicas")
        expect(shown).to_contain_text("oscar")
        expect(page.locator(".stuck-row", has_text="risk-api")).to_have_count(1)
        expect(page.locator(".lead")).to_contain_text("1 override")
        pictures.take(page, "now")
    finally:
        cluster.patch("/api/v1/nodes/node-1", {"spec": {"unschedulable": False}})
    cluster.ask("DELETE", f"{overrides}/hold-checkout")
    expect(row).to_have_count(0)


def fight(cluster: Cluster, path: str, is_shown: Callable[[], bool]) -> None:
    """Two people set the replicas back and forth, until somebody notices."""
    operator = {"authorization": f"Bearer {OPERATOR}", "content-type": "application/merge-patch+json"}
    for turn in itertools.count():
        assert turn < ROUNDS_MAX, "nobody noticed the fight"
        cluster.patch(path, {"spec": {"replicas": 4}})
        answer = raw(cluster, "PATCH", path, {"spec": {"replicas": 3}}, operator)
        assert answer.status == 200, answer.text
        if turn > 3 and is_shown():
            return
