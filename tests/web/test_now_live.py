"""The page Now in a real browser on a real cluster, and what all pages share: login, keys, search, themes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from tests.cluster.living import Cluster
from tests.web.accessibility import serious_faults
from tests.web.people import VIEWER
from tests.web.pictures import Pictures
from tests.web.workloads import deployment, too_big

pytestmark = pytest.mark.live

PageAs = Callable[..., Page]


def test_a_link_logs_a_browser_in_and_leaves_no_trace_in_its_address(
    cluster: Cluster, context: BrowserContext
) -> None:
    path = cluster.ask("POST", "/ui/links", {})["path"]
    page = context.new_page()
    page.goto(cluster.url + path)
    expect(page.get_by_role("heading", level=1)).to_have_text("Now")
    assert page.url == f"{cluster.url}/ui/#/now"
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Now")
    other = context.browser.new_context(ignore_https_errors=True).new_page()  # type: ignore[union-attr]
    other.goto(cluster.url + path)
    expect(other.get_by_role("alert")).to_contain_text("this link was used already")
    other.context.close()


def test_a_page_that_follows_a_story_goes_where_it_is_told_until_it_is_stopped(
    cluster: Cluster, context: BrowserContext, namespace: str
) -> None:
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    first = {"page": "#/coupling", "text": "Who can change <b>this</b>?"}
    cluster.ask("POST", maps, {"metadata": {"name": "story"}, "data": first})
    path = cluster.ask("POST", "/ui/links", {})["path"]
    page = context.new_page()
    page.goto(f"{cluster.url}{path}&follow={namespace}/story")
    heading, story = page.get_by_role("heading", level=1), page.locator("#story")
    expect(heading).to_have_text("Coupling")
    expect(story).to_contain_text("Who can change <b>this</b>?")
    page.reload()
    cluster.patch(f"{maps}/story", {"data": {"page": "#/overrides", "text": "An override."}})
    expect(heading).to_have_text("Overrides")
    cluster.patch(f"{maps}/story", {"data": {"page": "javascript:alert(1)", "text": "Nowhere."}})
    expect(story).to_contain_text("Nowhere.")
    expect(heading).to_have_text("Overrides")
    assert serious_faults(page, "light") == []
    page.get_by_role("button", name="Stop following").click()
    cluster.patch(f"{maps}/story", {"data": {"page": "#/now"}})
    expect(story).to_be_empty()
    page.reload()
    expect(heading).to_have_text("Overrides")


def test_a_token_logs_in_and_logging_out_forgets_it(cluster: Cluster, page_as: PageAs) -> None:
    page = page_as("viewer")
    expect(page.locator(".menu summary")).to_contain_text("vera")
    expect(page.locator(".menu summary")).to_contain_text("read-only")
    page.locator(".menu summary").click()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in to fathom")
    assert page.evaluate("localStorage.getItem('fathom-key')") is None


def test_a_session_that_is_ended_elsewhere_leads_to_the_login(cluster: Cluster, page_as: PageAs) -> None:
    page = page_as("viewer")
    for each in cluster.ask("GET", "/ui/sessions")["sessions"]:
        cluster.ask("DELETE", f"/ui/sessions/{each['id']}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in to fathom")
    expect(page.get_by_role("alert")).to_contain_text("the session has ended")


def test_a_stuck_workload_appears_and_goes_away_without_a_reload(
    cluster: Cluster, namespace: str, page_as: PageAs
) -> None:
    page = page_as("viewer")
    page.evaluate("window.notReloaded = true")
    cluster.ask("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", too_big("huge"))
    row = page.locator(".stuck-row", has_text=f"{namespace}/huge")
    expect(row).to_contain_text("0 of 1 ready")
    expect(row.locator(".summary")).to_contain_text("NodeResourcesFit")
    expect(row.get_by_role("link")).to_have_attribute("href", f"#/workload/{namespace}/Deployment/huge")
    small = {"name": "main", "image": "sleeper:1", "resources": {"requests": {"cpu": "1m"}}}
    cluster.ask(
        "PATCH",
        f"/apis/apps/v1/namespaces/{namespace}/deployments/huge",
        {"spec": {"template": {"spec": {"containers": [small]}}}},
        "application/strategic-merge-patch+json",
    )
    expect(row).to_have_count(0)
    assert page.evaluate("window.notReloaded") is True


def test_somebody_with_rights_in_one_namespace_sees_that_and_is_told_what_is_hidden(
    cluster: Cluster, namespace: str, page_as: PageAs
) -> None:
    cluster.ask("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", too_big("mine"))
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": "nina"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "name": "nina", "apiGroup": group}],
    }
    cluster.ask("POST", f"/apis/{group}/v1/namespaces/{namespace}/rolebindings", binding)
    page = page_as("nobody")
    expect(page.locator(".stuck .name")).to_have_text(f"Deployment {namespace}/mine")
    for hidden in (".map", ".control", ".overrides", ".fights"):
        expect(page.locator(hidden)).to_contain_text("You may not read this")
    page.get_by_label("Namespace").fill(namespace)
    page.get_by_role("button", name="Show").click()
    expect(page.locator(".overrides")).to_contain_text("None: nothing is steered by hand.")
    expect(page.locator(".stuck .name")).to_have_text(f"Deployment {namespace}/mine")


def test_nodes_are_shown_by_zone_with_their_state(cluster: Cluster, page_as: PageAs) -> None:
    page = page_as("viewer")
    expect(page.locator(".zone h3")).to_have_text(["a", "b"])
    expect(page.locator(".tile")).to_have_count(3)
    node = page.locator('.tile[data-node="node-2"]')
    expect(node.locator(".state")).to_have_text("●ready")
    cluster.patch("/api/v1/nodes/node-2", {"spec": {"unschedulable": True}})
    try:
        expect(node.locator(".state")).to_have_text("▲cordoned")
    finally:
        cluster.patch("/api/v1/nodes/node-2", {"spec": {"unschedulable": False}})
    expect(node.locator(".state")).to_have_text("●ready")


def test_the_control_plane_shows_leaders_brake_and_breakers(page_as: PageAs) -> None:
    page = page_as("admin")
    wanted = {"controllers": "leads", "scheduler": "leads", "brake": "released", "breakers": "closed"}
    expect(page.locator(".control-what")).to_have_text(list(wanted))
    expect(page.locator(".control-row .state-word")).to_have_text(list(wanted.values()))


def test_hostile_text_of_the_cluster_is_shown_as_text(
    cluster: Cluster, namespace: str, page_as: PageAs
) -> None:
    hostile = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    override = {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "SchedulerOverride",
        "metadata": {"name": "hostile"},
        "spec": {
            "reason": hostile,
            "expiresAfter": "10m",
            "scope": "cluster",
            "target": "deployment/web",
            "changes": {"pauseRollout": True},
        },
    }
    cluster.ask("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment("web", hostile))
    path = f"/apis/fathom.dev/v1alpha1/namespaces/{namespace}/scheduleroverrides"
    cluster.ask("POST", path, override)
    page = page_as("admin")
    row = page.locator(".override-row", has_text="hostile")
    expect(row.locator(".override-why")).to_contain_text(hostile)
    assert page.locator("main img, main script").count() == 0
    assert page.title() == "Now · fathom"
    cluster.ask("DELETE", f"{path}/hostile")


def test_keys_search_and_help(cluster: Cluster, namespace: str, page_as: PageAs) -> None:
    cluster.ask("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment("searched"))
    page = page_as("viewer")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    box = page.get_by_role("combobox")
    expect(box).to_be_focused()
    box.fill("searched")
    expect(page.get_by_role("option").first).to_contain_text(f"{namespace}/searched")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{cluster.url}/ui/#/workload/{namespace}/Deployment/searched")


def test_a_lost_connection_is_said_and_found_again(page_as: PageAs, context: BrowserContext) -> None:
    page = page_as("viewer")
    expect(page.locator(".tile")).to_have_count(3)
    context.set_offline(True)
    page.evaluate(
        "import('/ui/watches.js').then((watches) => { watches.stopWatching(); watches.startWatching(); })"
    )
    expect(page.locator(".banner")).to_contain_text("Connection lost since")
    context.set_offline(False)
    expect(page.locator(".banner")).to_have_count(0)


def test_the_theme_is_the_systems_until_one_is_chosen(page_as: PageAs) -> None:
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    page = page_as("viewer")
    light = page.evaluate(ground)
    page.emulate_media(color_scheme="dark")
    page.reload()
    page.get_by_role("button", name="Light", exact=True).wait_for()
    assert page.evaluate(ground) != light
    page.get_by_role("button", name="Light", exact=True).click()
    assert page.evaluate(ground) == light
    page.reload()
    page.get_by_role("button", name="Dark", exact=True).wait_for()
    assert page.evaluate(ground) == light


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(
    cluster: Cluster, namespace: str, page_as: PageAs, pictures: Pictures, theme: str
) -> None:
    cluster.ask("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", too_big("axed"))
    page = page_as("admin")
    expect(page.locator(".stuck-row", has_text="axed")).to_have_count(1)
    expect(page.locator(".tile")).to_have_count(3)
    assert serious_faults(page, theme) == []
    page.keyboard.press("/")
    assert serious_faults(page, theme) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious_at_the_login(
    cluster: Cluster, context: BrowserContext, theme: str
) -> None:
    page = context.new_page()
    page.goto(f"{cluster.url}/ui/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in to fathom")
    assert serious_faults(page, theme) == []
    assert VIEWER not in page.content()
