"""`fathom page` and `fathom page sessions` as a person types them; the link that `fathom up` prints."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cluster.living import Cluster
from tests.web.people import VIEWER
from tests.web.raw import log_in, raw

from fathom.demo.risk_api import STORY
from fathom.web.files import STATIC

pytestmark = pytest.mark.live


def fathom(cluster: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fathom.cli", *words, "--kubeconfig", str(cluster.data / "kubeconfig")]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def session_of(cluster: Cluster, link: str) -> tuple[str, bool]:
    """Who the link logs in, and whether changes are allowed."""
    address, _, code = link.strip().partition("/ui/#login=")
    assert address == cluster.url
    answer = raw(cluster, "POST", "/ui/session", {"code": code}).json
    return answer["user"], answer["allowChanges"]


def test_page_prints_a_link_that_logs_in(cluster: Cluster) -> None:
    reading, changing = fathom(cluster, "page"), fathom(cluster, "page", "--allow-changes")
    assert (reading.returncode, reading.stderr) == (0, "")
    assert session_of(cluster, reading.stdout) == ("fathom-admin", False)
    assert session_of(cluster, changing.stdout) == ("fathom-admin", True)


def test_up_prints_a_link_once_it_is_ready(cluster: Cluster) -> None:
    lines = cluster.told().splitlines()
    line = lines[lines.index("ready") + 1]
    found = re.fullmatch(
        r"page     (https://\S+/ui/#login=\S+)  \(once, within ten minutes; another: fathom page\)", line
    )
    assert found is not None, line
    assert session_of(cluster, found[1]) == ("fathom-admin", False)


def test_sessions_are_listed_and_ended(cluster: Cluster) -> None:
    headers = log_in(cluster, VIEWER)
    own = raw(cluster, "GET", "/ui/session", headers=headers).json["id"]
    head, *rows = fathom(cluster, "page", "sessions").stdout.splitlines()
    assert head.split() == ["ID", "USER", "MAY", "SINCE", "LAST", "USED", "FROM"]
    assert [row.split()[:3] for row in rows if own in row] == [[own, "vera", "reads"]]
    listed = json.loads(fathom(cluster, "page", "sessions", "-o", "json").stdout)["sessions"]
    assert own in [each["id"] for each in listed]
    ended = fathom(cluster, "page", "sessions", "--end", own)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"session {own} ended\n", "")
    assert raw(cluster, "GET", "/ui/session", headers=headers).status == 401
    again = fathom(cluster, "page", "sessions", "--end", own)
    assert (again.returncode, again.stderr) == (2, f'fathom: error: sessions "{own}" not found\n')


def test_all_sessions_end_at_once(cluster: Cluster) -> None:
    one, other = log_in(cluster, VIEWER), log_in(cluster, VIEWER)
    assert fathom(cluster, "page", "sessions", "--all").returncode == 0
    assert [raw(cluster, "GET", "/ui/session", headers=each).status for each in (one, other)] == [401, 401]
    assert fathom(cluster, "page", "sessions").stdout == "no sessions\n"
    assert fathom(cluster, "page", "sessions", "--all").stdout == "there is no session to end\n"


def test_a_server_without_a_page_is_said_in_a_line(cluster: Cluster, tmp_path: Path) -> None:
    config = (cluster.data / "kubeconfig").read_text().replace(cluster.url, f"{cluster.url}/elsewhere")
    (tmp_path / "kubeconfig").write_text(config)
    command = [sys.executable, "-m", "fathom.cli", "page", "--kubeconfig", str(tmp_path / "kubeconfig")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (
        2,
        "fathom: error: this API server serves no page: it is not fathom, or older than 0.1\n",
    )


def test_every_page_that_the_demonstration_names_is_a_route() -> None:
    routes = re.findall(r"pattern: \[([^\]]+)\]", (STATIC / "router.js").read_text())
    patterns = [
        "#/" + "/".join("[^/]+" if part == "*" else part for part in re.findall(r'"([^"]+)"', route))
        for route in routes
    ]
    named = {step.page for act in STORY for step in act.steps if step.page}
    assert named != set()
    assert [page for page in named if not any(re.fullmatch(each, page) for each in patterns)] == []
