"""Coupling in a real browser: the graph of who reads and writes what."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect
from tests.cluster.living import Cluster
from tests.web.accessibility import serious_faults
from tests.web.objects import make_deployment
from tests.web.people import HOSTILE, HOSTILE_NAME
from tests.web.steering import fight

from fathom.explain.coupling.actors import actors

pytestmark = pytest.mark.live

PageAs = Callable[..., Page]


def test_a_kind_is_selected_by_keyboard_and_its_readers_and_writers_are_named(
    cluster: Cluster, page_as: PageAs
) -> None:
    page = page_as("viewer")
    page.goto(f"{cluster.url}/ui/#/coupling")
    expect(page.locator(".coupling-graph .count")).to_contain_text(f"{len(actors())} actors")
    page.get_by_label("Controller or kind").fill("Lease")
    expect(page.locator(".node.k")).not_to_have_count(0)
    page.locator(".node[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("kind ")
    page.keyboard.press("Enter")
    selected = page.evaluate("document.activeElement.dataset.id").removeprefix("k:")
    about = page.locator(".coupling > .card")
    expect(about.get_by_role("heading", level=2)).to_have_text(selected)
    expect(about).to_contain_text("Written by")
    page.keyboard.press("Enter")
    expect(about).to_be_hidden()


def test_a_controller_shows_how_it_is_coupled_and_the_table_says_the_same(
    cluster: Cluster, page_as: PageAs
) -> None:
    page = page_as("viewer")
    page.goto(f"{cluster.url}/ui/#/coupling?of=autoscaling")
    page.get_by_role("button", name="reader controllers/autoscaling").click()
    about = page.locator(".coupling > .card")
    expect(about).to_contain_text("controllers/autoscaling decides from")
    expect(about).to_contain_text("cache-lag")
    assert [serious_faults(page, theme) for theme in ("light", "dark")] == [[], []]
    page.get_by_label("as a table").check()
    row = page.locator("tr", has=page.get_by_role("button", name="HorizontalPodAutoscaler", exact=True))
    expect(row.locator("td").last).to_contain_text("controllers/autoscaling")
    assert [serious_faults(page, theme) for theme in ("light", "dark")] == [[], []]


def test_a_writer_with_a_hostile_name_is_shown_as_text_in_the_graph_its_table_and_the_fight(
    cluster: Cluster, namespace: str, page_as: PageAs
) -> None:
    page = page_as("viewer")
    page.goto(f"{cluster.url}/ui/#/coupling")
    make_deployment(cluster, namespace, "web")
    fight(cluster, HOSTILE, f"/apis/apps/v1/namespaces/{namespace}/deployments/web")
    row = page.locator(".fight-row", has_text=f"{namespace}/web").filter(has_text="two writers")
    expect(row.locator(".fight-writers")).to_contain_text(HOSTILE_NAME)
    page.get_by_label("only fights").check()
    expect(page.get_by_role("button", name=f"writer {HOSTILE_NAME} (bot), in a fight")).to_be_visible()
    page.get_by_label("as a table").check()
    table = page.locator(".coupling-graph table")
    expect(table).to_contain_text(HOSTILE_NAME)
    table.get_by_role("button", name="Deployment", exact=True).click()
    expect(page.locator(".coupling > .card")).to_contain_text(HOSTILE_NAME)
    assert page.locator("img, main b").count() == 0
    assert "owned" not in page.title()
