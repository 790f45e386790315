"""What anybody can write into a cluster is shown as text: where the tests of a page have nothing hostile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect
from tests.cluster.living import Cluster
from tests.web import people
from tests.web.objects import HOSTILE, OBEYED, OBEYED_SHOWN, OWN, decisions_of, make_deployment
from tests.web.people import HOSTILE_NAME, RBAC
from tests.web.steering import MERGE, create_override, override, page_of
from tests.web.workloads import deployment

pytestmark = pytest.mark.live

PageAs = Callable[..., Page]
Obj = dict[str, Any]
TEXT, SHOWN = HOSTILE + OBEYED, HOSTILE + OBEYED_SHOWN
LEASES = "/apis/coordination.k8s.io/v1/namespaces/fathom-system/leases"
ROLE = "<img src=x onerror=alert(1)>"  # A name that Kubernetes allows to a role.
RUNBOOK = {
    "apiVersion": "fathom.dev/v1alpha1",
    "kind": "Runbook",
    "metadata": {"name": "hostile"},
    "spec": {
        "title": TEXT,
        "description": TEXT,
        "version": 1,
        "parameters": [{"name": "note", "description": TEXT}],
        "steps": [{"id": "ask", "title": TEXT, "action": {"prompt": {"question": TEXT}}}],
    },
}


@pytest.fixture
def page(page_as: PageAs) -> Iterator[Page]:
    """Of the administrator. In the end, nothing of the cluster has become an element or has run."""
    opened, dialogs = page_as("admin"), list[str]()
    opened.on("dialog", lambda dialog: dialogs.append(dialog.message))
    yield opened
    assert opened.locator("main img, main script, main b").count() == 0
    assert dialogs == []


def test_the_name_of_an_image_on_now_and_on_the_pages_of_its_workload_and_its_pod(
    cluster: Cluster, namespace: str, page: Page
) -> None:
    body = deployment("hostile")
    body["spec"]["template"]["spec"]["containers"][0]["image"] = TEXT
    cluster.ask("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", body)
    row = page.locator(".stuck-row", has_text=f"{namespace}/hostile")
    expect(row.locator(".summary")).to_contain_text(SHOWN)
    row.get_by_role("link").first.click()
    expect(page.locator(".headline-text")).to_contain_text(SHOWN)
    expect(page.locator(".revision-images")).to_have_text(SHOWN)
    expect(page.locator(".pod-why")).to_contain_text(SHOWN)
    page.locator(".pod-table").get_by_role("link").click()
    expect(page.locator(".headline-text")).to_contain_text(SHOWN)
    expect(page.locator(".entries")).to_contain_text(SHOWN)


def test_who_leads_and_what_components_report_on_now(cluster: Cluster, page: Page) -> None:
    lease = {"metadata": {"name": "hostile-leader"}, "spec": {"holderIdentity": TEXT}}
    signals = {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "ComponentSignals",
        "metadata": {"name": "hostile"},
        "spec": {},
    }
    cluster.ask("POST", LEASES, lease)
    cluster.ask("POST", f"{OWN}/componentsignals", signals)
    try:
        status = {"status": {"signals": [{"name": "trouble", "message": TEXT}]}}
        cluster.ask("PATCH", f"{OWN}/componentsignals/hostile/status", status, MERGE)
        for what in ("hostile-leader", "trouble"):
            row = page.locator(".control-row", has_text=what)
            expect(row.locator(".control-detail")).to_contain_text(SHOWN)
    finally:
        cluster.ask("DELETE", f"{LEASES}/hostile-leader")
        cluster.ask("DELETE", f"{OWN}/componentsignals/hostile")


def test_the_name_of_the_user_on_every_page(cluster: Cluster, context: BrowserContext) -> None:
    page = page_of(context, cluster, people.HOSTILE, changes=False)
    expect(page.locator(".menu .user")).to_have_text(HOSTILE_NAME)
    page.locator(".menu summary").click()
    expect(page.locator(".menu-body")).to_contain_text(f"Logged in as {HOSTILE_NAME} until")
    assert page.locator("img, header b").count() == 0
    assert page.title() == "Now · fathom"


def test_a_decision_of_which_every_text_is_hostile(cluster: Cluster, namespace: str, page: Page) -> None:
    """Names of nodes and reasons of rules are not anybody's, today: the page does not rely on that."""
    pod = make_deployment(cluster, namespace, "decided")[0]["metadata"]["name"]
    decision = decisions_of(cluster, namespace, pod)[-1]["metadata"]["name"]
    page.route("**/decisions/*", lambda route: changed(route, hostile_decision))
    page.route("**/explanations", lambda route: changed(route, hostile_explanation))
    page.goto(f"{cluster.url}/ui/#/decision/{decision}?namespace={namespace}")
    expect(page.locator(".headline-text")).to_contain_text(SHOWN)
    expect(page.get_by_role("region", name="As decided")).to_contain_text(SHOWN)
    expect(page.get_by_role("region", name="Asked again now")).to_contain_text(SHOWN)
    hostile = page.locator(".node-table tr", has=page.get_by_role("rowheader", name=SHOWN))
    expect(hostile.locator("td").first).to_contain_text(SHOWN)
    for title in ("Policies", "Rules that rejected nodes", "Evicted for it", "Requests", "Outcomes"):
        heading = page.locator(".decision-facts").get_by_role("heading", name=title)
        expect(heading.locator("xpath=following-sibling::ul[1]")).to_contain_text(SHOWN)


def changed(route: Route, change: Callable[[Obj], None]) -> None:
    answer = route.fetch()
    document = answer.json()
    change(document)
    route.fulfill(response=answer, json=document)


def hostile_decision(decision: Obj) -> None:
    rejected = {"nodes": 1, "rule": TEXT, "reason": TEXT, "remedy": TEXT}
    told: Obj = {"message": TEXT, "policies": [{"name": TEXT}], "rejected": [rejected]}
    decision["spec"] |= {**told, "victims": [TEXT], "actions": [TEXT]}
    outcome = {"result": "committed", "message": TEXT}
    decision["status"] |= {"process": TEXT, "nodes": {TEXT: TEXT}, "outcomes": [outcome]}


def hostile_explanation(explanation: Obj) -> None:
    rows = [{"node": TEXT, "fits": False, "reason": TEXT}]
    explanation["status"] |= {"summary": TEXT, "now": {"answer": TEXT, "node": TEXT}, "nodes": rows}


def test_a_runbook_in_the_list(cluster: Cluster, namespace: str, page: Page) -> None:
    cluster.ask("POST", f"{OWN}/namespaces/{namespace}/runbooks", RUNBOOK)
    page.goto(f"{cluster.url}/ui/#/runbooks")
    book = page.locator(".book", has_text=f"namespace {namespace}")
    expect(book.locator(".book-title")).to_have_text(SHOWN)
    book.locator("summary").click()
    expect(book.locator(".book-body > p").first).to_have_text(SHOWN)
    expect(book.locator("dd")).to_contain_text(SHOWN)
    expect(book.locator(".numbered")).to_contain_text(SHOWN)


def test_the_name_of_a_role_of_break_glass(cluster: Cluster, namespace: str, page: Page) -> None:
    rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
    role = {"name": ROLE, "annotations": {"fathom.dev/break-glass": "true"}}
    cluster.ask("POST", f"{RBAC}/clusterroles", {"metadata": role, "rules": [rule]})
    make_deployment(cluster, namespace, "web")
    create_override(cluster, namespace, override("glass", "workload/web", {"breakGlassRole": ROLE}, TEXT))
    page.goto(f"{cluster.url}/ui/#/overrides")
    expect(page.locator("tr", has_text=f"{namespace}/glass")).to_contain_text(SHOWN)
    expect(page.locator(".review-row", has_text=f"in {namespace}")).to_contain_text(f"had ClusterRole {ROLE}")
    page.goto(f"{cluster.url}/ui/#/overrides/{namespace}/glass")
    expect(page.locator(".card", has_text="What it changes")).to_contain_text(ROLE)
    expect(page.locator(".facts").first).to_contain_text(SHOWN)
