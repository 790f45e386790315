"""The page about one workload, in a real browser on a real cluster."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect
from tests.cluster.living import Cluster
from tests.web.accessibility import serious_faults
from tests.web.objects import HOSTILE, OBEYED, OBEYED_SHOWN, OWN, make_deployment, set_image
from tests.web.pictures import Pictures

pytestmark = pytest.mark.live

PageAs = Callable[..., Page]


def run(cluster: Cluster, typed: str) -> None:
    """A command of the page, as somebody would type it."""
    program, *words = shlex.split(typed)
    assert program == "fathom"
    config = str(cluster.data / "kubeconfig")
    command = [sys.executable, "-m", "fathom.cli", *words, "--kubeconfig", config]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def test_from_a_broken_rollout_on_now_to_its_cause_its_command_and_green_again(
    cluster: Cluster, namespace: str, page_as: PageAs, pictures: Pictures
) -> None:
    make_deployment(cluster, namespace, "web", replicas=2)
    page = page_as("viewer")
    page.evaluate("window.notReloaded = true")
    set_image(cluster, namespace, "web", "missing:2")
    page.locator(".stuck-row", has_text=f"{namespace}/web").get_by_role("link").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("web")
    expect(page.locator(".headline-text")).to_contain_text(
        "image 'missing:2' of container main cannot be pulled"
    )
    new, old = page.locator(".stage-line.new"), page.locator(".stage-line.old")
    expect(new.locator(".stage-count")).to_have_text(["1", "1", "1", "1", "1", "0", "0"])
    expect(old.locator(".stage-count")).to_have_text(["2", "2", "2", "2", "2", "2", "2"])
    expect(new.get_by_role("rowheader")).to_contain_text("2 wanted")
    revisions = page.locator(".revision-row")
    expect(revisions.locator("strong")).to_have_text(["revision 2", "revision 1"])
    expect(revisions.nth(0)).to_contain_text("main image: sleeper:1 → missing:2")
    expect(revisions.nth(0)).to_contain_text("by fathom-admin")
    expect(page.locator(".pod-table tbody tr")).to_have_count(3)
    expect(page.locator(".pod-table tbody tr").first).to_contain_text("ErrImageNeverPull")
    page.get_by_label("fathom", exact=True).check()
    command = page.locator(".proposal.first .command code")
    expect(command).to_have_text(f"fathom rollout undo deployment/web -n {namespace}")
    pictures.take(page, "workload")
    run(cluster, command.inner_text())
    expect(page.locator(".headline .state-word")).to_have_text("as wanted")
    expect(new.locator(".stage-count")).to_have_text(["2"] * 7)
    expect(old).to_have_count(0)
    expect(revisions.locator("strong")).to_have_text(["revision 3", "revision 2"])
    expect(revisions.nth(0)).to_contain_text("by fathom-admin")
    assert page.evaluate("window.notReloaded") is True


def test_what_holds_scales_and_protects_it_is_shown_as_text(
    cluster: Cluster, namespace: str, page_as: PageAs
) -> None:
    make_deployment(cluster, namespace, "held")
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "held"}
    cluster.patch(
        f"/apis/apps/v1/namespaces/{namespace}/deployments/held",
        {"spec": {"template": {"metadata": {"annotations": {"note": HOSTILE + OBEYED}}}}},
    )
    scaled = {"minReplicas": 1, "maxReplicas": 3, "scaleTargetRef": target}
    path = f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers"
    cluster.ask("POST", path, {"metadata": {"name": "scales"}, "spec": scaled})
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "held"}}}
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    cluster.ask("POST", path, {"metadata": {"name": "protects"}, "spec": budget})
    override = {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "SchedulerOverride",
        "metadata": {"name": "holds"},
        "spec": {
            "reason": HOSTILE,
            "expiresAfter": "10m",
            "scope": "cluster",
            "target": "deployment/held",
            "changes": {"pauseAutoscaler": True},
        },
    }
    page = page_as("admin")
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    page.goto(f"{cluster.url}/ui/#/workload/{namespace}/Deployment/held")
    holds = page.locator(".steering")
    expect(holds).to_contain_text("scales")
    expect(holds).to_contain_text("protects")
    cluster.ask("POST", f"{OWN}/namespaces/{namespace}/scheduleroverrides", override)
    expect(holds.get_by_role("link", name="holds")).to_have_attribute(
        "href", f"#/overrides/{namespace}/holds"
    )
    expect(holds).to_contain_text("pauseAutoscaler")
    expect(page.locator(".history")).to_contain_text(f"annotations note: none → {HOSTILE}{OBEYED_SHOWN}")
    assert page.locator("main img, main script").count() == 0
    assert dialogs == []


def test_a_workload_that_does_not_exist_and_a_kind_without_a_page_are_said(
    cluster: Cluster, namespace: str, page_as: PageAs
) -> None:
    page = page_as("viewer")
    page.goto(f"{cluster.url}/ui/#/workload/{namespace}/Deployment/nothing")
    expect(page.locator(".headline")).to_contain_text(f"there is no deployment {namespace}/nothing")
    page.goto(f"{cluster.url}/ui/#/workload/{namespace}/{HOSTILE.replace('/', '%2F')}/x")
    expect(page.locator("main")).to_contain_text(f"not about {HOSTILE}")


def test_a_workload_is_usable_by_keyboard_and_axe_finds_nothing_serious(
    cluster: Cluster, namespace: str, page_as: PageAs
) -> None:
    pod = make_deployment(cluster, namespace, "keys")[0]["metadata"]["name"]
    page = page_as("viewer")
    page.goto(f"{cluster.url}/ui/#/workload/{namespace}/Deployment/keys")
    expect(page.locator(".headline .state-word")).to_have_text("as wanted")
    expect(page.locator(".revision-row")).to_have_count(1)
    assert serious_faults(page, "light") == []
    assert serious_faults(page, "dark") == []
    page.get_by_role("heading", level=1).focus()
    page.keyboard.press("j")
    expect(page.get_by_role("link", name=pod)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(pod)
