"""Runs of runbooks, followed in a real browser while the command line carries them out."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import msgspec
import pytest
from playwright.sync_api import Page, expect
from tests.cluster.living import Cluster
from tests.web.accessibility import serious_faults
from tests.web.people import OPERATOR
from tests.web.pictures import Pictures
from tests.web.steering import HOSTILE, MERGE, OWN, THROUGH, fathom, patch_as

from fathom.kinds.runbook import spec_hash
from fathom.steer.runbook_library import library
from fathom.steer.templates import resolved

pytestmark = pytest.mark.live

PageAs = Callable[..., Page]
NOTE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${run}"}, "data": {"note": "${note}"}}
RUNBOOK = {
    "apiVersion": "fathom.dev/v1alpha1",
    "kind": "Runbook",
    "metadata": {"name": "leave-a-note"},
    "spec": {
        "title": "Leave a note for the next shift",
        "version": 1,
        "parameters": [{"name": "note", "description": "what it says"}],
        "inputs": [
            {"name": "note", "object": {"apiVersion": "v1", "kind": "ConfigMap", "name": "${run}"}},
        ],
        "preconditions": [{"name": "no-note-yet", "expression": "note == null", "once": True}],
        "steps": [
            {
                "id": "write",
                "title": "Write ${note}",
                "action": {"create": NOTE},
                "expect": [{"name": "is-there", "expression": "note != null", "show": "note.data.note"}],
                "compensation": {"delete": {"apiVersion": "v1", "kind": "ConfigMap", "name": "${run}"}},
            },
            {"id": "read", "title": "Has it been read?", "action": {"prompt": {"question": "Read ${note}?"}}},
            {"id": "wait", "title": "Look once more", "action": {"wait": {"about": "nothing"}}},
        ],
        "postconditions": [{"name": "note-stays", "expression": "note != null"}],
    },
}


def test_a_run_is_followed_step_by_step_and_the_shown_command_carries_it_on(
    cluster: Cluster, namespace: str, page_as: PageAs, pictures: Pictures
) -> None:
    cluster.ask("POST", f"{OWN}/namespaces/{namespace}/runbooks", RUNBOOK)
    page = page_as("viewer")
    page.goto(f"{cluster.url}/ui/#/runbooks")
    expect(page.locator(".book", has_text="drain-zone")).to_contain_text("Empty a zone for maintenance")
    own = page.locator(".book", has_text="leave-a-note").filter(has_text=namespace)
    own.locator("summary").click()
    expect(own.locator(".command").last).to_contain_text(
        f"fathom runbook run leave-a-note --set note=… -n {namespace}"
    )
    words = ["runbook", "run", "leave-a-note", "--name", "night", "-n", namespace, "--yes"]
    fathom(cluster, *words, "--set", "note=the rack is warm", codes=(1,))
    row = page.locator("tr", has_text=f"{namespace}/night")
    expect(row).to_contain_text("Waiting")
    pictures.take(page, "runbooks")
    assert [serious_faults(page, theme) for theme in ("light", "dark")] == [[], []]
    row.get_by_role("link").click()

    expect(page.locator(".step-state .state")).to_have_text(["●done", "○to do", "○to do"])
    first = page.locator(".run-step").first
    expect(first).to_contain_text("Write the rack is warm")
    expect(first.locator(".verdicts")).to_contain_text("is-there the rack is warm")
    run = cluster.ask("GET", f"{OWN}/namespaces/{namespace}/runbookruns/night")
    audit_id = run["status"]["steps"][0]["writes"][0]["auditId"]
    expect(first.locator("table")).to_contain_text(audit_id)
    still = page.locator(".stands-still")
    expect(still).to_contain_text("Step read asks: Read the rack is warm?")
    pictures.take(page, "run")
    assert [serious_faults(page, theme) for theme in ("light", "dark")] == [[], []]

    command = still.locator(".command code").first.inner_text()
    assert command == f"fathom runbook resume night -n {namespace} --answer read=yes"
    page.evaluate("window.notReloaded = true")
    fathom(cluster, *shlex.split(command)[1:], "--yes")
    expect(page.locator(".page-head .state")).to_have_text("●Succeeded")
    expect(page.locator(".step-state .state")).to_have_text(["●done", "●done", "●done"])
    expect(still).to_be_hidden()
    assert page.evaluate("window.notReloaded") is True

    page.get_by_role("button", name="Write the report").click()
    report = page.locator("pre.report")
    expect(report).to_contain_text("# Leave a note for the next shift")
    expect(report).to_contain_text("| started by | fathom-admin |")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save it").click()
    assert saved.value.suggested_filename == "night.md"
    assert saved.value.path().read_text() == fathom(cluster, "runbook", "report", "night", "-n", namespace)

    hostile = {**run["spec"], "parameters": {"note": HOSTILE}, "reason": HOSTILE}
    body = {
        "apiVersion": run["apiVersion"],
        "kind": run["kind"],
        "metadata": {"name": "day"},
        "spec": hostile,
    }
    runs = f"{OWN}/namespaces/{namespace}/runbookruns"
    cluster.ask("POST", runs, body)
    status = {"phase": "Stopped", "message": HOSTILE, "history": [{"text": HOSTILE}]}
    cluster.ask("PATCH", f"{runs}/day/status", {"status": status}, MERGE)
    page.goto(f"{cluster.url}/ui/#/runbooks/{namespace}/day")
    expect(page.locator(".run-step").first).to_contain_text(f"Write {HOSTILE}")
    expect(page.locator(".stands-still")).to_contain_text(HOSTILE)
    expect(page.locator(".history")).to_contain_text(HOSTILE)
    assert page.locator("main img").count() == 0


def test_a_run_that_an_assistant_asked_for_waits_for_approval_and_says_who_asked(
    cluster: Cluster, namespace: str, page_as: PageAs
) -> None:
    book = library()["freeze-autoscaling"].spec
    spec = {
        "runbook": {"name": "freeze-autoscaling", "source": "library", "hash": spec_hash(book)},
        "content": msgspec.json.decode(msgspec.json.encode(book)),
        "parameters": resolved("freeze-autoscaling", book, {"workload": "web", "reason": "a drill"}),
        "requestedThrough": THROUGH,
    }
    body = {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "RunbookRun",
        "metadata": {"name": "asked"},
        "spec": spec,
    }
    path = f"{OWN}/namespaces/{namespace}/runbookruns"
    made = cluster.ask("POST", path, body)
    page = page_as("viewer")
    page.goto(f"{cluster.url}/ui/#/runbooks")
    row = page.locator("tr", has_text=f"{namespace}/asked")
    expect(row.locator(".state-word")).to_have_text("Waiting for approval")
    expect(row).to_contain_text(f"fathom-admin, through {THROUGH}")
    row.get_by_role("link").click()
    expect(page.locator(".facts").first).to_contain_text(f"fathom-admin, through {THROUGH}")
    still = page.locator(".stands-still")
    expect(still).to_contain_text("before somebody other than fathom-admin approves it")
    expect(still.locator(".command code").first).to_have_text(f"fathom runbook approve asked -n {namespace}")
    decision = {"approved": True, "specHash": made["status"]["approval"]["specHash"]}
    status, answer = patch_as(cluster, OPERATOR, f"{path}/asked/approval", {"status": {"approval": decision}})
    assert status == 200, answer
    expect(page.locator(".page-head .state-word")).not_to_contain_text("approval")
