"""Record and simulator in a real browser: tapes, an incident exported and replayed, a failed run told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.cluster.living import Cluster
from tests.sim.test_cli import BLIND
from tests.web.accessibility import serious_faults
from tests.web.people import VIEWER
from tests.web.pictures import Pictures
from tests.web.raw import log_in, raw
from tests.web.steering import HOSTILE, fathom
from tests.web.workloads import deployment

pytestmark = pytest.mark.live

PageAs = Callable[..., Page]


def test_a_failed_simulated_run_is_told_as_a_story_and_as_text(
    cluster: Cluster, page_as: PageAs, pictures: Pictures, tmp_path: Path
) -> None:
    (tmp_path / "blind.py").write_text(BLIND)
    words = ["sim", "run", "shared-counter", "--seed", "0", "--patch", "blind.py", "--out", str(tmp_path)]
    fathom(cluster, *words, codes=(1,), folder=tmp_path)
    file = tmp_path / "shared-counter-0-random.json"
    page = page_as("admin")
    page.goto(f"{cluster.url}/ui/#/record")
    page.get_by_label("File of the run").set_input_files(file)
    story = page.locator(".story-out")
    expect(story.locator(".verdict")).to_contain_text("Broken at 00:00.015")
    expect(story.locator(".invariant")).to_have_text("no update is lost")
    expect(story.locator("pre")).to_have_text("adds-1 removed adds-3-1-0")
    lines = story.locator(".story-lines li")
    expect(lines).to_have_count(4)
    expect(lines.first.locator(".line-what")).to_have_text("creates configmap counter, at revision 4")
    expect(lines.last).to_contain_text("because of 3")
    expect(story).to_contain_text("crash-at-write on api-1, for 1.615 s, at its write number 5")
    command = "fathom replay shared-counter-0-random.json --trust patch"
    expect(story.locator(".command").first.locator("code")).to_have_text(command)
    pictures.take(page, "record")
    lines.last.get_by_role("button", name="line 3").click()
    expect(lines.nth(2)).to_be_focused()
    assert [serious_faults(page, theme) for theme in ("light", "dark")] == [[], []]

    run = json.loads(file.read_text())
    run["violation"]["message"] = run["timeline"][0]["what"] = run["plan"]["scenario"] = HOSTILE
    hostile = tmp_path / "hostile.json"
    hostile.write_text(json.dumps(run))
    page.get_by_label("File of the run").set_input_files(hostile)
    expect(story.locator("pre")).to_have_text(HOSTILE)
    expect(lines.first.locator(".line-what")).to_have_text(HOSTILE)
    assert page.locator("main img").count() == 0
    other = tmp_path / "other.json"
    other.write_text('{"format": "something"}')
    page.get_by_label("File of the run").set_input_files(other)
    expect(story.get_by_role("alert")).to_contain_text("other.json is not a recorded run")


@pytest.mark.full
def test_an_incident_is_exported_saved_and_replayed_by_whoever_may(
    cluster: Cluster, namespace: str, page_as: PageAs
) -> None:
    cluster.ask("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment("web"))
    reader = page_as("admin")
    reader.goto(f"{cluster.url}/ui/#/record")
    expect(reader.locator("tr", has_text="scheduler").first).to_contain_text("recording")
    expect(reader.get_by_role("button", name="Export")).to_be_disabled()
    expect(reader.locator(".export-form .why-not")).to_contain_text("this session is read-only")

    page = page_as("admin", changes=True)
    page.goto(f"{cluster.url}/ui/#/record")
    page.get_by_label("Around").fill("deployment/nobody")
    page.get_by_label("Namespace").fill(namespace)
    page.get_by_role("button", name="Export").click()
    expect(page.get_by_role("alert")).to_contain_text("decided about deployment")
    page.get_by_label("Around").fill("deployment/web")
    page.get_by_role("button", name="Export").click()
    made = page.locator(".exports li")
    expect(made).to_contain_text("tapes: controllers run 1")
    with page.expect_download() as saved:
        made.get_by_role("button", name="Save the file").click()
    assert saved.value.suggested_filename == "deployment-web.incident"
    assert saved.value.path().read_bytes()[:2] == b"PK"
    made.get_by_role("button", name="Replay it here").click()
    expect(made.locator(".replay > .state")).to_have_text("●Reproduced", timeout=120_000)
    expect(made.locator(".replay li").first).to_contain_text("controllers run 1")
    assert [serious_faults(page, theme) for theme in ("light", "dark")] == [[], []]


def test_recordings_are_not_for_a_viewer(cluster: Cluster, page_as: PageAs) -> None:
    page = page_as("viewer", changes=True)
    page.goto(f"{cluster.url}/ui/#/record")
    expect(page.get_by_role("alert")).to_contain_text("user vera may not get /ui/record")
    expect(page.get_by_role("form", name="Export an incident")).to_be_hidden()
    session = log_in(cluster, VIEWER, changes=True)
    for method, path in (
        ("GET", "/ui/record"),
        ("POST", "/ui/record/exports"),
        ("GET", "/ui/record/exports/x"),
    ):
        assert raw(cluster, method, path, None, session).status == 403
    assert raw(cluster, "GET", "/ui/record").status == 403


def test_an_export_names_one_object_and_nothing_else(cluster: Cluster, page_as: PageAs) -> None:
    page = page_as("admin", changes=True)
    ask = """async (body) => {
        const {send} = await import("/ui/api.js");
        try { await send("POST", "/ui/record/exports", body); return ""; }
        catch (error) { return error.message; }
    }"""
    assert "must be KIND/NAME" in page.evaluate(ask, {"around": "--data=/etc/x"})
    assert "no name of a namespace" in page.evaluate(ask, {"around": "pod/web", "namespace": "../x"})
    assert "is a duration" in page.evaluate(ask, {"around": "pod/web", "window": "ever"})


def test_a_replay_that_differs_names_the_first_difference(cluster: Cluster, page_as: PageAs) -> None:
    sent = {"number": 7, "method": "POST", "target": f"/api/{HOSTILE}", "body_bytes": 12, "checksum": "00"}
    first = {
        "about": "request",
        "ask": 7,
        "why": "the replay sent a different request",
        "live": sent,
        "replayed": None,
        "after": {"index": 9, "kind": "REPLY", "time": "2026-11-17T10:00:00Z", "now_ns": 1, "what": "200"},
        "decision": None,
    }
    tape = {"matched": False, "inputs": 9, "asks": 7, "writes": 1, "seconds": 2.0, "first_divergence": first}
    result = {"matched": False, "tapes": [{"process": "scheduler", "run": 3, "result": tape}]}
    page = page_as("admin")
    page.goto(f"{cluster.url}/ui/#/record")
    page.get_by_role("heading", level=1, name="Record and simulator").wait_for()
    render = """async (replay) => {
        const {replayResult} = await import("/ui/views/record_replay.js");
        document.querySelector("main").append(replayResult(replay));
    }"""
    page.evaluate(render, {"state": "done", "result": result})
    shown = page.locator("main > .replay")  # Those of exports are within their rows.
    expect(shown.locator("> .state")).to_have_text("■Not reproduced")
    expect(shown.locator("li").first).to_contain_text("scheduler run 3 9 inputs, 7 requests")
    expect(shown.locator("dd")).to_have_text(
        [
            "the replay sent a different request",
            f"POST /api/{HOSTILE}, 12 bytes",
            "nothing",
            "9, REPLY (200), at 2026-11-17T10:00:00Z",
        ]
    )
    assert page.locator("main img").count() == 0
