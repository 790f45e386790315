"""The page about one pod, in a real browser on a real cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from tests.cluster.living import Cluster, until
from tests.web.accessibility import serious_faults
from tests.web.objects import (
    HOSTILE,
    OBEYED,
    OBEYED_SHOWN,
    decisions_of,
    make_deployment,
    make_pod,
    timeline_of,
)
from tests.web.pictures import Pictures
from tests.web.workloads import too_big

pytestmark = pytest.mark.live

PageAs = Callable[..., Page]
DRAWN = """
() => [...document.querySelectorAll('.timeline-svg path.edge')].map((each) =>
    [each.dataset.cause, each.dataset.effect, each.classList.contains('inferred')])
"""
# Backslashes are printf's: the program writes the characters themselves.
TALKS = r"""
printf '%s\n' 'LINE'; printf '\033[31mred\033[0m \342\200\256turned\342\200\254\n'
sleep 1000
"""


def opened(page: Page, cluster: Cluster, namespace: str, pod: str) -> Page:
    page.goto(f"{cluster.url}/ui/#/pod/{namespace}/{pod}")
    expect(page.get_by_role("heading", level=1)).to_have_text(pod)
    return page


def edges_of(timeline: dict[str, Any]) -> list[list[Any]]:
    return sorted([each["cause"], each["effect"], each.get("inferred", False)] for each in timeline["edges"])


def test_the_timeline_has_every_entry_and_every_cause_of_the_record(
    cluster: Cluster, namespace: str, page_as: PageAs, pictures: Pictures
) -> None:
    pod = make_deployment(cluster, namespace, "told")[0]["metadata"]["name"]
    page = opened(page_as("admin"), cluster, namespace, pod)
    drawing = page.get_by_role("group", name="Drawing of the timeline")
    expect(drawing).to_be_visible()
    seen: list[Any] = []

    def is_the_record() -> bool:
        answer = timeline_of(cluster, namespace, pod)
        seen[:] = [sorted(page.evaluate(DRAWN)), edges_of(answer)]
        return bool(answer["edges"]) and seen[0] == seen[1]

    until(is_the_record, lambda: str(seen))
    entries = timeline_of(cluster, namespace, pod)["entries"]
    assert page.locator(".entry-mark").count() == len(entries)
    sentences = page.locator(".entries .entry-sentence")
    expect(sentences.nth(0)).to_contain_text(f"{entries[0]['actor']} {entries[0]['text']}")
    bind = page.locator(".entries .entry", has_text=f"binds pod {pod}")
    expect(bind).to_contain_text("because of")
    bind.click()
    details = page.locator(".entry-details")
    expect(details).to_contain_text("scheduler chooses")
    expect(details).to_contain_text("wrote, recorded")
    page.locator(".timeline").evaluate("node => window.scrollTo(0, node.offsetTop - 70)")
    pictures.take(page, "pod")


def test_a_gap_is_drawn_in_the_lane_of_its_source_for_as_long_as_it_lasted(page_as: PageAs) -> None:
    bands = """async () => {
      const {LANES, gapBands, layout} = await import('/ui/views/pod_timeline_layout.js');
      const at = (second) => `2026-11-16T12:00:0${second}.000000Z`;
      const placed = layout([0, 2, 4].map((second) => ({time: at(second)})), 1);
      const gaps = [
        {source: 'audit log', why: `it has nothing of pod web-1 before ${at(2)}`},
        {source: 'journal of scheduler', why: `not recorded from ${at(2)} to ${at(4)}: 3 lost`},
        {source: 'journal of deciders', why: 'it does not answer'},
        {source: 'permissions', why: '2 entries are about objects that you may not read'}];
      const entry = (x) => placed.xs.indexOf(x);
      return gapBands(gaps, placed).map(({lane, from, to}) =>
        [LANES[lane].title, from && entry(from), to === placed.width ? 'end' : entry(to)]);
    }"""
    assert page_as("viewer").evaluate(bands) == [
        ["Writes", 0, 1],
        ["Decisions", 1, 2],
        ["Decisions", 0, "end"],
    ]


def test_the_drawing_is_zoomed_moved_and_read_by_keys(
    cluster: Cluster, namespace: str, page_as: PageAs
) -> None:
    pod = make_deployment(cluster, namespace, "zoomed")[0]["metadata"]["name"]
    page = opened(page_as("viewer"), cluster, namespace, pod)
    drawing = page.get_by_role("group", name="Drawing of the timeline")
    drawing.focus()
    width = "document.querySelector('.timeline-svg').getBoundingClientRect().width"
    before = page.evaluate(width)
    for _ in range(6):
        page.keyboard.press("+")
    wide = page.evaluate(width)
    assert wide > before
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.querySelector('.timeline-scroll').scrollLeft") > 0
    page.keyboard.press("-")
    assert page.evaluate(width) < wide
    page.keyboard.press("ArrowDown")
    expect(page.locator(".entry-details .entry-title")).to_contain_text("1. ")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".entry-details .entry-title")).to_contain_text("2. ")
    expect(page.locator(".entry[aria-current='true']")).to_have_count(1)
    drawing.hover()
    wide = page.evaluate(width)
    page.mouse.wheel(0, -300)
    page.wait_for_function(f"{width} > {wide}")


def test_log_lines_events_and_names_that_are_hostile_are_shown_as_text(
    cluster: Cluster, namespace: str, page_as: PageAs
) -> None:
    pod = make_pod(cluster, namespace, "talks", TALKS.replace("LINE", HOSTILE))
    event = {
        "metadata": {"name": "talks.1"},
        "involvedObject": {
            "kind": "Pod",
            "namespace": namespace,
            "name": "talks",
            "uid": pod["metadata"]["uid"],
        },
        "reason": "Hostile",
        "message": HOSTILE + OBEYED,
        "type": "Warning",
        "source": {"component": "tests"},
        "lastTimestamp": pod["metadata"]["creationTimestamp"],
    }
    cluster.ask("POST", f"/api/v1/namespaces/{namespace}/events", event)
    page = page_as("admin")
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    opened(page, cluster, namespace, "talks")
    lines = page.locator(".log-line")
    expect(lines).to_have_text([HOSTILE, OBEYED_SHOWN])
    expect(page.locator(".entries")).to_contain_text(HOSTILE + OBEYED_SHOWN)
    assert page.locator("main img, main script").count() == 0
    assert dialogs == []


def test_a_line_of_the_log_appears_when_it_is_written(
    cluster: Cluster, namespace: str, page_as: PageAs
) -> None:
    make_pod(cluster, namespace, "counts", "n=0; while :; do n=$((n+1)); echo line $n; sleep 0.5; done")
    page = opened(page_as("viewer"), cluster, namespace, "counts")
    page.evaluate("window.notReloaded = true")
    newest = page.locator(".log-line").last.inner_text().removeprefix("line ")
    expect(page.get_by_text(f"line {int(newest) + 3}", exact=True)).to_be_visible()
    page.get_by_label("follow").uncheck()
    expect(page.locator(".log-note")).to_contain_text("as of now")
    assert page.evaluate("window.notReloaded") is True


def test_every_attempt_leads_to_its_decision_and_axe_finds_nothing_serious(
    cluster: Cluster, namespace: str, page_as: PageAs
) -> None:
    cluster.ask("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", too_big("waits"))
    path = f"/api/v1/namespaces/{namespace}/pods?labelSelector=app%3Dwaits"
    until(lambda: cluster.ask("GET", path)["items"], lambda: "no pod")
    pod = cluster.ask("GET", path)["items"][0]["metadata"]["name"]
    until(lambda: decisions_of(cluster, namespace, pod), lambda: "no decision")
    page = opened(page_as("viewer"), cluster, namespace, pod)
    expect(page.locator(".headline-text")).to_contain_text("have too little free cpu (NodeResourcesFit)")
    expect(page.locator(".proposal.first")).to_contain_text("Lower cpu of container main")
    first = decisions_of(cluster, namespace, pod)[0]["metadata"]["name"]
    link = page.locator(".attempt-table").get_by_role("link", name="attempt 1", exact=True)
    expect(link).to_have_attribute("href", f"#/decision/{first}?namespace={namespace}")
    page.locator(".entry").first.click()
    expect(page.locator(".entry-details .entry-title")).to_contain_text("1. ")
    assert serious_faults(page, "light") == []
    assert serious_faults(page, "dark") == []


def test_a_pod_that_was_never_there_is_said(cluster: Cluster, namespace: str, page_as: PageAs) -> None:
    page = opened(page_as("viewer"), cluster, namespace, "nobody")
    expect(page.locator(".headline")).to_contain_text(f"there is no pod {namespace}/nobody")
    expect(page.locator(".page-head .state-word").first).to_have_text("does not exist")


def test_an_answer_stays_while_the_server_does_not_answer_and_the_log_goes_on(
    cluster: Cluster, namespace: str, page_as: PageAs, context: BrowserContext
) -> None:
    make_pod(cluster, namespace, "stays", "n=0; while :; do n=$((n+1)); echo line $n; sleep 0.5; done")
    page = opened(page_as("viewer"), cluster, namespace, "stays")
    expect(page.locator(".headline .state-word")).to_have_text("as wanted")
    expect(page.locator(".log-note")).to_contain_text("live")
    context.set_offline(True)
    page.get_by_label("follow").uncheck()
    expect(page.locator(".log-note")).to_contain_text("the connection was lost, trying again")
    page.get_by_label("follow").check()
    expect(page.locator(".headline .state-word")).to_have_text("as wanted")
    context.set_offline(False)
    expect(page.locator(".log-note")).to_contain_text("live")
