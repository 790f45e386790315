"""What is changed through the page's own paths is in the audit log, and nobody ends sessions of others."""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.api.harness import ADMIN, JANE, Answer, Api, tell
from tests.security.people import RBAC

from fathom.api.auth.authenticate import Authenticator
from fathom.api.auth.authorize import Authorizer
from fathom.seams.outside import SystemClock
from fathom.web.page import Page
from fathom.web.recording_paths import RecordingPaths
from fathom.web.recordings import Recordings
from fathom.web.sessions import Sessions

HOST = {"host": "here"}
Headers = dict[str, str]


def with_page(story: Callable[[Api], Awaitable[None]], data: Path) -> None:
    clock, numbers = SystemClock(), itertools.count()

    def make_page(authenticator: Authenticator, authorizer: Authorizer) -> Page:
        sessions = Sessions(clock, lambda: f"secret-{next(numbers)}", authenticator.is_valid)
        recordings = RecordingPaths(Recordings(data, clock, lambda: "e-1"))
        return Page(sessions, authenticator, authorizer, names={"here"}, recordings=recordings)

    tell(story, data, make_page=make_page)


async def log_in(api: Api, token: str, *, changes: bool = False) -> tuple[str, Headers]:
    """The id of the session, and the headers of its requests."""
    body = {"token": token, "allowChanges": changes}
    answer = await api.post("/ui/session", body, token="", headers=HOST)
    cookie = answer.headers["set-cookie"].partition(";")[0]
    return answer.obj["id"], {**HOST, "cookie": cookie, "x-fathom-key": answer.obj["key"]}


async def sent(api: Api, method: str, path: str, headers: Headers, body: object = None) -> Answer:
    return await api.call(method, path, body, token="", headers=headers)


def audited(api: Api, data: Path) -> list[tuple[object, ...]]:
    api.audit.flush()
    entries = map(json.loads, (data / "audit" / "audit.jsonl").read_text().splitlines())
    facts = ("user", "verb", "resource", "subresource", "namespace", "name", "code")
    return [
        tuple(entry.get(fact, "") for fact in facts)
        for entry in entries
        if entry["resource"].startswith("ui/")
    ]


def test_exports_replays_and_ended_sessions_are_in_the_audit_log(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        admin, changing = await log_in(api, ADMIN, changes=True)
        _, jane = await log_in(api, JANE, changes=True)
        asked = {"around": "deployment/web", "namespace": "shop", "window": "soon"}
        exports = "/ui/record/exports"
        assert (await sent(api, "POST", exports, changing, asked)).status == 400
        assert (await sent(api, "POST", exports, jane, asked)).status == 403
        assert (await sent(api, "POST", f"{exports}/none/replay", changing)).status == 404
        assert (await sent(api, "GET", "/ui/record", changing)).status == 200
        assert (await sent(api, "POST", exports, {**HOST}, asked)).status == 403
        assert (await sent(api, "DELETE", f"/ui/sessions/{admin}", changing)).status == 200
        assert audited(api, tmp_path) == [
            ("admin", "create", "ui/record/exports", "", "shop", "deployment/web", 400),
            ("jane", "create", "ui/record/exports", "", "shop", "deployment/web", 403),
            ("admin", "create", "ui/record/exports", "replay", "", "none", 404),
            ("admin", "delete", "ui/sessions", "", "", admin, 200),
        ]

    with_page(story, tmp_path)


def test_a_session_ends_those_of_others_only_if_its_user_may(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        admin, by_admin = await log_in(api, ADMIN)
        mine, by_jane = await log_in(api, JANE)
        other, _ = await log_in(api, JANE)
        assert (await sent(api, "DELETE", f"/ui/sessions/{admin}", by_jane)).status == 404
        assert (await sent(api, "DELETE", "/ui/sessions", by_jane)).obj == {"ended": [mine, other]}
        assert (await sent(api, "GET", "/ui/session", by_admin)).status == 200
        rule = {"nonResourceURLs": ["/ui/sessions"], "verbs": ["delete"]}
        role = {"metadata": {"name": "ender"}, "rules": [rule]}
        assert (await api.post(f"{RBAC}/clusterroles", role)).status == 201
        bound = {
            "metadata": {"name": "ender"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "ender"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
        }
        assert (await api.post(f"{RBAC}/clusterrolebindings", bound)).status == 201
        _, by_jane = await log_in(api, JANE)
        assert (await sent(api, "DELETE", f"/ui/sessions/{admin}", by_jane)).obj == {"ended": [admin]}

    with_page(story, tmp_path)
