"""What tests of the steering pages do with a cluster: write as somebody else, fight, run a command."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, Page, expect
from tests.cluster.living import Cluster

Obj = dict[str, Any]
OWN = "/apis/fathom.dev/v1alpha1"
LIMITS = f"{OWN}/namespaces/fathom-system/steeringlimits/default"
MERGE = "application/merge-patch+json"
HOSTILE = "<img src=x onerror=\"document.title='owned'\"> & <b>bold</b>"
THROUGH = "assistant probe 1.0 via fathom mcp"
expect.set_options(timeout=30_000)  # Milliseconds; a machine is slow at times.
PREVIEWS_MAX = 3  # On a machine without a free core the fork may not be done in its 50 s.


def patch_as(cluster: Cluster, token: str, path: str, body: Any) -> tuple[int, Obj]:
    """With somebody's token, as a program other than the page would."""
    tls = ssl.create_default_context(cafile=str(cluster.data / "pki" / "ca.crt"))
    connection = http.client.HTTPSConnection(urlsplit(cluster.url).netloc, context=tls, timeout=20)
    try:
        headers = {"authorization": f"Bearer {token}", "content-type": MERGE, "user-agent": "bot/1"}
        connection.request("PATCH", path, body=json.dumps(body), headers=headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def fight(cluster: Cluster, token: str, path: str) -> None:
    """The administrator and somebody else undo each other's number of replicas."""
    for _ in range(4):
        cluster.ask("PATCH", path, {"spec": {"replicas": 2}}, MERGE)
        status, said = patch_as(cluster, token, path, {"spec": {"replicas": 1}})
        assert status == 200, said


def override(name: str, target: str, changes: Obj, reason: str = "a test") -> Obj:
    spec = {
        "target": target,
        "scope": "cluster",
        "reason": reason,
        "expiresAfter": "30m",
        "changes": changes,
    }
    return {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "SchedulerOverride",
        "metadata": {"name": name},
        "spec": spec,
    }


def create_override(cluster: Cluster, namespace: str, body: Obj) -> Obj:
    made: Obj = cluster.ask("POST", f"{OWN}/namespaces/{namespace}/scheduleroverrides", body)
    return made


def preview(page: Page) -> None:
    """Press Preview, again where the machine was too slow for the fork, until both futures are shown."""
    for _ in range(PREVIEWS_MAX):
        page.get_by_role("button", name="Preview", exact=True).click()
        outcome = page.locator(".futures .future-table, .futures .problem")
        outcome.first.wait_for(timeout=90_000)
        if page.locator(".futures .problem").count() == 0:
            return
    expect(page.locator(".futures .problem")).to_have_count(0)


def page_of(context: BrowserContext, cluster: Cluster, token: str, *, changes: bool) -> Page:
    """The page of somebody else, in a browser of their own: sessions of one browser share its cookie."""
    page = context.new_page()
    page.goto(f"{cluster.url}/ui/")
    page.get_by_label("Token").fill(token)
    page.get_by_label("Allow changes").set_checked(changes)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", level=1, name="Now").wait_for()
    return page


def fathom(cluster: Cluster, *words: str, codes: tuple[int, ...] = (0,), folder: Path | None = None) -> str:
    command = [sys.executable, "-m", "fathom.cli", *words]
    environ = {**os.environ, "KUBECONFIG": str(cluster.data / "kubeconfig")}
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env=environ,
        cwd=folder,
        stdin=subprocess.DEVNULL,
    )
    assert ran.returncode in codes, ran.stdout + ran.stderr
    return ran.stdout
