"""Overrides in a real browser: from a fight to a preview, an override, its proof; approvals; who may not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.cluster.living import Cluster, until
from tests.web.accessibility import serious_faults
from tests.web.people import OPERATOR, RBAC, VIEWER
from tests.web.pictures import Pictures
from tests.web.raw import log_in, raw
from tests.web.steering import (
    HOSTILE,
    LIMITS,
    MERGE,
    OWN,
    THROUGH,
    create_override,
    fight,
    override,
    page_of,
    preview,
)
from tests.web.workloads import deployment

pytestmark = pytest.mark.live

PageAs = Callable[..., Page]


@pytest.fixture
def web(cluster: Cluster, namespace: str) -> str:
    """The path of a Deployment."""
    cluster.ask("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment("web"))
    return f"/apis/apps/v1/namespaces/{namespace}/deployments/web"


@pytest.fixture
def approvals(cluster: Cluster) -> Iterator[None]:
    cluster.ask("PATCH", LIMITS, {"spec": {"approvals": "on"}}, MERGE)
    yield
    cluster.ask("PATCH", LIMITS, {"spec": {"approvals": "off"}}, MERGE)


def show(page: Page, cluster: Cluster, path: str) -> None:
    page.goto(f"{cluster.url}/ui/#/{path}")


def test_a_fight_leads_to_an_override_with_its_preview_and_its_end_to_a_proof(
    cluster: Cluster, namespace: str, web: str, page_as: PageAs, pictures: Pictures
) -> None:
    page = page_as("admin", changes=True)
    show(page, cluster, "coupling")
    expect(page.locator(".graph .node").first).to_be_visible()
    fight(cluster, OPERATOR, web)
    row = page.locator(".fight-row", has_text=f"{namespace}/web").filter(has_text="two writers")
    expect(row).to_contain_text("spec.replicas")
    expect(row.locator(".fight-writers")).to_contain_text("oscar")
    # At least those of its two writers: fights of other tests may go on.
    expect(page.locator(".graph .edge.fight").nth(1)).to_be_visible()
    expect(page.locator(".graph .fight-label", has_text="spec.replicas").first).to_be_visible()
    page.get_by_label("only fights").check()  # The picture shows both the list and the graph.
    pictures.take(page, "coupling")
    page.get_by_label("only fights").uncheck()

    row.get_by_role("link", name="Steer it with an override").click()
    expect(page.get_by_label("Its name")).to_have_value("web")
    page.get_by_role("checkbox", name="pauseRollout").check()
    page.get_by_label("Why", exact=True).fill(HOSTILE)
    page.get_by_text("How it is previewed").click()
    page.get_by_label("Minutes of virtual time").fill("1")
    page.get_by_label("Forks, each with other chances").fill("1")
    preview(page)
    expect(page.locator(".future-table").first).to_contain_text("deployment/web")
    expect(page.locator(".future-table thead").first).to_contain_text("Without itWith it")

    # What the preview rests on moves: it is refused, and nothing is created.
    cluster.ask("PATCH", web, {"spec": {"minReadySeconds": 1}}, MERGE)
    page.get_by_role("button", name="Create it from this preview").click()
    expect(page.get_by_role("dialog")).to_contain_text("the preview no longer holds: Deployment")
    expect(page.get_by_role("button", name="Create it", exact=True)).to_be_disabled()
    page.keyboard.press("Escape")
    assert cluster.ask("GET", f"{OWN}/namespaces/{namespace}/scheduleroverrides")["items"] == []

    preview(page)
    page.get_by_role("button", name="Create it from this preview").click()
    expect(page.get_by_role("dialog")).to_contain_text("Nothing that the preview rests on has moved")
    page.get_by_role("button", name="Create it", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("web-pause-rollout")
    expect(page.locator(".page-head .state")).to_have_text("●Active")
    expect(page.locator(".card", has_text="Who honours it")).to_contain_text("deployment-controller")
    expect(page.locator(".facts").first).to_contain_text(HOSTILE)
    assert page.locator("main img").count() == 0

    page.get_by_role("button", name="End it now").click()
    expect(page.get_by_role("dialog")).to_contain_text("pauseRollout: over at once")
    page.get_by_role("button", name="End it", exact=True).click()
    expect(page.locator(".proof")).to_contain_text("it is proven that nothing is left of it")
    assert page.title() == "Override web-pause-rollout · fathom"
    assert cluster.ask("GET", f"{OWN}/namespaces/{namespace}/scheduleroverrides")["items"] == []


def test_an_override_that_is_edited_after_its_preview_must_be_previewed_again(
    cluster: Cluster, namespace: str, web: str, page_as: PageAs
) -> None:
    page = page_as("operator", changes=True)
    show(page, cluster, f"overrides/new?target=workload/web&namespace={namespace}&change=pauseRepair")
    press = page.get_by_role("button", name="Preview", exact=True)
    page.get_by_label("Why", exact=True).fill("to see")
    page.get_by_label("For how long").fill("soon")
    press.click()
    expect(page.get_by_role("alert")).to_have_text(
        "how long it lasts is a duration such as 30s, 45m or 1h30m"
    )
    page.get_by_label("For how long").fill("5m")
    press.click()
    # The operator may not fork the cluster, and is told what is known without.
    expect(page.locator(".futures")).to_contain_text("No fork was run")
    expect(page.locator(".futures")).to_contain_text("No waiting pod is concerned.")
    create = page.get_by_role("button", name="Create it from this preview")
    expect(create).to_be_enabled()
    page.get_by_label("For how long").fill("6m")
    expect(create).to_be_disabled()
    expect(page.locator(".futures")).to_contain_text("the form has changed since the preview")
    page.get_by_label("For how long").fill("5m")
    expect(create).to_be_enabled()


@pytest.mark.usefixtures("approvals", "web")
def test_somebody_else_approves_and_neither_the_author_nor_a_viewer_can(
    cluster: Cluster, namespace: str, browser: Browser, page_as: PageAs
) -> None:
    others = [browser.new_context(ignore_https_errors=True) for _ in range(3)]
    risky = override("shift", "workload/web", {"trafficWeights": {"eu-west": 1}}, HOSTILE)
    made = create_override(cluster, namespace, risky)
    place = f"overrides/{namespace}/shift"

    author = page_as("admin", changes=True)
    show(author, cluster, place)
    expect(author.get_by_role("button", name="Approve")).to_be_disabled()
    expect(author.locator(".actions")).to_contain_text("somebody else approves what you wrote")

    viewer = page_of(others[0], cluster, VIEWER, changes=True)
    show(viewer, cluster, place)
    for name in ("Approve", "Refuse", "Extend", "End it now"):
        expect(viewer.get_by_role("button", name=name)).to_be_disabled()
    reason = f"you may not patch scheduleroverrides/approval in namespace {namespace}"
    expect(viewer.locator(".actions .why-not").first).to_have_text(reason)
    session = log_in(cluster, VIEWER, changes=True)
    path = f"{OWN}/namespaces/{namespace}/scheduleroverrides/shift/approval"
    answer = raw(
        cluster,
        "PATCH",
        path,
        {"status": {"approval": {"approved": True}}},
        {**session, "content-type": MERGE},
    )
    assert answer.status == 403

    reader = page_of(others[1], cluster, OPERATOR, changes=False)
    show(reader, cluster, place)
    expect(reader.locator(".actions .why-not").first).to_contain_text("this session is read-only")

    page = page_of(others[2], cluster, OPERATOR, changes=True)
    show(page, cluster, place)
    page.get_by_role("button", name="Approve", exact=True).click()  # Not the one that copies a command.
    expect(page.get_by_role("dialog")).to_contain_text(made["status"]["approval"]["specHash"][:12])
    page.get_by_role("button", name="Approve it").click()
    expect(page.locator(".facts").first).to_contain_text("approved by oscar")
    expect(author.locator(".facts").first).to_contain_text("approved by oscar")  # By its watch.
    expect(author.get_by_role("button", name="Approve")).to_be_hidden()
    for context in others:
        context.close()


@pytest.mark.usefixtures("web")
def test_an_override_that_an_assistant_asked_for_says_so_to_whoever_approves_it(
    cluster: Cluster, namespace: str, page_as: PageAs
) -> None:
    asked = override("asked", "workload/web", {"pauseRepair": True})
    asked["spec"]["requestedThrough"] = THROUGH
    create_override(cluster, namespace, asked)
    page = page_as("operator", changes=True)
    show(page, cluster, "overrides")
    row = page.locator("tr", has_text=f"{namespace}/asked")
    expect(row.locator(".state-word")).to_have_text("Waiting for approval")
    expect(row).to_contain_text(f"fathom-admin, through {THROUGH}")
    row.get_by_role("link").click()
    expect(page.locator(".facts").first).to_contain_text(f"fathom-admin, through {THROUGH}")
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text(f"fathom-admin, through {THROUGH}")
    page.get_by_role("button", name="Approve it").click()
    expect(page.locator(".facts").first).to_contain_text("approved by oscar")


def test_an_override_is_extended_and_the_list_counts_down(
    cluster: Cluster, namespace: str, web: str, page_as: PageAs, pictures: Pictures
) -> None:
    create_override(cluster, namespace, override("hold", "workload/web", {"pauseRepair": True}))
    page = page_as("operator", changes=True)
    show(page, cluster, "overrides")
    row = page.locator("tr", has_text=f"{namespace}/hold")
    expect(row.locator("time")).to_contain_text("29:")
    expect(row).to_contain_text("1 of 1")
    pictures.take(page, "overrides")
    row.get_by_role("link").click()
    expect(page.get_by_role("button", name="Extend")).to_be_enabled()
    pictures.take(page, "override")
    page.get_by_role("button", name="Extend").click()
    page.get_by_label("How long, from now").fill("5m")
    page.get_by_label("Why longer").fill("it takes longer")
    page.get_by_role("button", name="Extend it").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("that would end it earlier")
    page.get_by_label("How long, from now").fill("1h")
    page.get_by_role("button", name="Extend it").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator(".facts").first).to_contain_text("extended 1 time")
    expect(page.locator(".page-head time")).to_contain_text("59:")


def test_overrides_can_be_used_with_the_keyboard_alone_and_axe_finds_nothing_serious(
    cluster: Cluster, namespace: str, web: str, page_as: PageAs
) -> None:
    create_override(cluster, namespace, override("keys", "workload/web", {"pauseRepair": True}, HOSTILE))
    page = page_as("operator", changes=True)
    page.keyboard.press("g")
    page.keyboard.press("o")
    expect(page.get_by_role("heading", level=1)).to_have_text("Overrides")
    expect(page.locator("tr", has_text=f"{namespace}/keys")).to_contain_text(HOSTILE)
    assert page.locator("main img").count() == 0
    assert [serious_faults(page, theme) for theme in ("light", "dark")] == [[], []]
    for _ in range(20):
        page.keyboard.press("j")
        if page.evaluate("document.activeElement.textContent").startswith(f"{namespace}/keys"):
            break
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("keys")
    expect(page.get_by_role("button", name="End it now")).to_be_enabled()
    assert [serious_faults(page, theme) for theme in ("light", "dark")] == [[], []]
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "End it now":
            break
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert [serious_faults(page, theme) for theme in ("light", "dark")] == [[], []]
    page.keyboard.press("Enter")
    expect(page.locator(".proof")).to_contain_text("nothing is left of it")
    show(page, cluster, "overrides/new")
    expect(page.get_by_role("checkbox").first).to_be_visible()
    assert [serious_faults(page, theme) for theme in ("light", "dark")] == [[], []]


def test_a_drain_shows_in_both_futures_how_many_pods_it_moves(
    cluster: Cluster, namespace: str, page_as: PageAs, pictures: Pictures
) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    cluster.ask("POST", path, deployment("risk-api", replicas=4))
    until(lambda: cluster.ask("GET", f"{path}/risk-api")["status"].get("readyReplicas") == 4, cluster.told)
    page = page_as("admin", changes=True)
    show(page, cluster, "overrides/new?target=zone/a&change=drain&reason=maintenance+of+the+rack")
    page.get_by_text("How it is previewed").click()
    page.get_by_label("Minutes of virtual time").fill("2")
    page.get_by_label("Forks, each with other chances").fill("1")
    preview(page)
    row = page.locator(".future-table tr", has=page.get_by_role("rowheader", name="in zone a", exact=True))
    now, without, with_it = (int(row.first.locator("td").nth(at).inner_text()) for at in range(3))
    assert (now, without, with_it) == (now, now, 0)
    assert now > 0
    expect(page.locator(".futures")).to_contain_text("The same counts still differ")
    pictures.take(page, "override-new")
    assert [serious_faults(page, theme) for theme in ("light", "dark")] == [[], []]


@pytest.mark.usefixtures("web")
def test_a_use_of_break_glass_is_reviewed_by_somebody_else(
    cluster: Cluster, namespace: str, browser: Browser, page_as: PageAs
) -> None:
    rule = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    marked = {"name": "glass", "annotations": {"fathom.dev/break-glass": "true"}}
    cluster.ask("POST", f"{RBAC}/clusterroles", {"metadata": marked, "rules": [rule]})
    glass = override("locked", "workload/web", {"breakGlassRole": "glass"}, "nobody who may is awake")
    create_override(cluster, namespace, glass)
    author = page_as("admin", changes=True)
    show(author, cluster, f"overrides/{namespace}/locked")
    expect(author.locator(".review-row")).to_contain_text("Nobody has reviewed it.")
    expect(author.get_by_role("button", name="Not in order")).to_be_disabled()
    expect(author.locator(".review-row")).to_contain_text("somebody else reviews what you did")

    other = browser.new_context(ignore_https_errors=True)
    page = page_of(other, cluster, OPERATOR, changes=True)
    show(page, cluster, "overrides")
    row = page.locator(".review-row", has_text=f"in {namespace}")
    row.get_by_role("button", name="In order: close it").click()
    page.get_by_role("button", name="Close the review").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("the override is still active")
    page.keyboard.press("Escape")
    row.get_by_role("button", name="Not in order").click()
    page.get_by_label("What you found").fill(HOSTILE)
    page.get_by_role("button", name="Dispute it").click()
    expect(row).to_contain_text("oscar, ")
    expect(author.locator(".review-row")).to_contain_text(HOSTILE)
    other.close()
