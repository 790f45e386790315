"""The page about one decision, in a real browser on a real cluster."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from tests.cluster.living import Cluster
from tests.web.accessibility import serious_faults
from tests.web.objects import HOSTILE, decisions_of, make_deployment
from tests.web.people import GROUP, NOBODY, RBAC
from tests.web.pictures import Pictures

pytestmark = pytest.mark.live

PageAs = Callable[..., Page]


def decided(cluster: Cluster, namespace: str, name: str) -> tuple[str, str, str]:
    """A pod that was placed: its name, its decision, its node."""
    pod = make_deployment(cluster, namespace, name)[0]["metadata"]["name"]
    decision = decisions_of(cluster, namespace, pod)[-1]
    assert decision["spec"]["verdict"] == "bind"
    return pod, decision["metadata"]["name"], decision["spec"]["node"]


def test_a_decision_shows_each_node_asks_again_and_what_if(
    cluster: Cluster, namespace: str, page_as: PageAs, pictures: Pictures
) -> None:
    pod, decision, node = decided(cluster, namespace, "placed")
    page = page_as("admin")
    page.goto(f"{cluster.url}/ui/#/decision/{decision}")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"scheduler: bind {node}")
    expect(page.get_by_role("region", name="As decided")).to_contain_text(f"bind {node}")
    expect(page.get_by_role("region", name="Asked again now")).to_contain_text("the same result")
    rows = page.locator(".node-table tbody tr")
    expect(rows).to_have_count(3)
    chosen = page.locator(".node-table tr.chosen")
    expect(chosen.get_by_role("rowheader")).to_have_text(f"{node}chosen")
    names = page.locator(".node-table tbody th")
    page.get_by_role("button", name="node", exact=True).click()
    expect(names).to_contain_text(["node-1", "node-2", "node-3"])
    page.get_by_role("button", name="node", exact=True).click()
    expect(names).to_contain_text(["node-3", "node-2", "node-1"])
    expect(page.locator(".node-table th[aria-sort='descending']")).to_contain_text("node")
    kinds = page.locator(".revisions-card tbody th")
    expect(kinds.first).to_have_text("Pod")
    page.get_by_role("button", name=f"{node} were cordoned").click()
    what_if = page.get_by_role("region", name="What if").first
    expect(what_if).to_contain_text("it fits node-")
    expect(what_if).not_to_contain_text(f"it fits {node}")
    expect(chosen).to_contain_text("NodeUnschedulable")
    expect(page.locator(".what-if-result .command code")).to_contain_text(
        f"fathom why pod/{pod} -n {namespace} --what-if"
    )
    unschedulable = cluster.ask("GET", f"/api/v1/nodes/{node}")["spec"].get("unschedulable")
    assert unschedulable is None  # Nothing was written.
    pictures.take(page, "decision")
    assert serious_faults(page, "light") == []
    assert serious_faults(page, "dark") == []


def test_a_change_that_cannot_be_read_is_refused_with_a_sentence(
    cluster: Cluster, namespace: str, page_as: PageAs
) -> None:
    _, decision, _ = decided(cluster, namespace, "asked")
    page = page_as("viewer")
    page.goto(f"{cluster.url}/ui/#/decision/{decision}?namespace={namespace}")
    page.get_by_label("Object").fill(HOSTILE)
    page.get_by_label("JSON merge patch").fill("{")
    page.get_by_label("JSON merge patch").press("Tab")
    page.keyboard.press("Enter")
    result = page.locator(".what-if-result")
    expect(result).to_contain_text("a change must read KIND/NAME=PATCH")
    expect(result).to_contain_text("onerror=alert(1)")
    page.get_by_label("Object").fill("node/node-1")
    page.get_by_role("button", name="Ask").click()
    expect(result).to_contain_text("the patch of node/node-1 is no JSON")
    assert page.locator("main img, main script").count() == 0
    page.goto(f"{cluster.url}/ui/#/decision/none?namespace={namespace}")
    expect(page.get_by_role("alert")).to_contain_text("not found")


def test_who_may_not_read_nodes_sees_counts_only(
    cluster: Cluster, namespace: str, context: BrowserContext
) -> None:
    _, decision, node = decided(cluster, namespace, "hidden")
    body = {
        "metadata": {"name": "nina"},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "name": "nina", "apiGroup": GROUP}],
    }
    cluster.ask("POST", f"{RBAC}/namespaces/{namespace}/rolebindings", body)
    cluster.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {"seen": "yes"}}})
    page = context.new_page()
    page.goto(f"{cluster.url}/ui/")
    page.get_by_label("Token").fill(NOBODY)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", level=1, name="Now").wait_for()
    page.goto(f"{cluster.url}/ui/#/decision/{decision}?namespace={namespace}")
    expect(page.get_by_role("heading", level=1)).to_have_text("scheduler: bind")
    expect(page.get_by_role("region", name="Asked again now")).to_contain_text("result")
    expect(page.locator(".node-table")).to_have_count(0)
    assert node not in page.locator("main").inner_text()
