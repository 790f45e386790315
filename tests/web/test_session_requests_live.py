"""Sessions over HTTP, by raw requests: which are believed, which are refused, and what they may do."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.cluster.living import Cluster, until
from tests.web.people import GROUP, NOBODY, OPERATOR, RBAC, TOKENS, VIEWER
from tests.web.raw import connect, log_in, raw

from fathom.web.files import POLICY

pytestmark = pytest.mark.live

PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
READ_ONLY = "this session is read-only: log in again with changes allowed"


def test_a_link_logs_in_once_and_not_twice(cluster: Cluster) -> None:
    code = cluster.ask("POST", "/ui/links", {})["code"]
    first = raw(cluster, "POST", "/ui/session", {"code": code})
    second = raw(cluster, "POST", "/ui/session", {"code": code})
    assert (first.status, first.json["user"], first.json["allowChanges"]) == (200, "fathom-admin", False)
    assert (second.status, second.message) == (
        401,
        "this link was used already, or is too old: `fathom page` prints another",
    )


def test_a_link_is_for_who_shows_credentials(cluster: Cluster) -> None:
    assert raw(cluster, "POST", "/ui/links", {}).status == 401
    token = {"authorization": f"Bearer {VIEWER}"}
    code = raw(cluster, "POST", "/ui/links", {"allowChanges": True}, token).json["code"]
    answer = raw(cluster, "POST", "/ui/session", {"code": code}).json
    assert (answer["user"], answer["allowChanges"]) == ("vera", True)
    acting = {**token, "impersonate-user": "oscar"}
    assert raw(cluster, "POST", "/ui/links", {}, acting).status == 403


def test_a_token_logs_in_and_a_wrong_one_does_not(cluster: Cluster) -> None:
    headers = log_in(cluster, VIEWER)
    assert raw(cluster, "GET", PODS, headers=headers).status == 200
    assert raw(cluster, "GET", "/ui/session", headers=headers).json["user"] == "vera"
    wrong = raw(cluster, "POST", "/ui/session", {"token": "not-a-token"})
    assert (wrong.status, wrong.message) == (401, "this token is not valid")


def test_the_cookie_is_only_for_this_host_over_tls_and_no_script_reads_it(cluster: Cluster) -> None:
    cookie = raw(cluster, "POST", "/ui/session", {"token": VIEWER}).headers["set-cookie"]
    name, _, attributes = cookie.partition("=")
    assert name == "__Host-fathom"
    assert attributes.split("; ")[1:] == [
        "Path=/",
        "Max-Age=43200",
        "HttpOnly",
        "Secure",
        "SameSite=Strict",
    ]


def test_a_session_is_believed_only_from_the_page_itself(cluster: Cluster) -> None:
    session = log_in(cluster, VIEWER)
    host = urlsplit(cluster.url).netloc
    cases = {
        "its own page": ({"origin": f"https://{host}", "sec-fetch-site": "same-origin"}, 200),
        "an address that was typed": ({"sec-fetch-site": "none"}, 200),
        "another origin": ({"origin": "https://evil.example"}, 403),
        "another port": ({"origin": "https://127.0.0.1:1"}, 403),
        "plain HTTP": ({"origin": f"http://{host}"}, 403),
        "another site": ({"sec-fetch-site": "cross-site"}, 403),
        "another port of the host": ({"sec-fetch-site": "same-site"}, 403),
        "another name that leads here": ({"host": "evil.example"}, 403),
        "an impersonation": ({"impersonate-user": "oscar"}, 403),
    }
    answers = {
        name: raw(cluster, "GET", PODS, headers={**session, **more}).status
        for name, (more, _) in cases.items()
    }
    assert answers == {name: wanted for name, (_, wanted) in cases.items()}


def test_a_cookie_without_its_key_and_a_key_without_its_cookie_are_refused(cluster: Cluster) -> None:
    session = log_in(cluster, VIEWER)
    for name in ("cookie", "x-fathom-key"):
        answer = raw(cluster, "GET", PODS, headers={name: session[name]})
        assert (answer.status, answer.message) == (
            403,
            "a session needs both its cookie and its key (x-fathom-key): log in again",
        )
    wrong = raw(cluster, "GET", PODS, headers={**session, "x-fathom-key": "guessed"})
    assert (wrong.status, wrong.message) == (401, "the session has ended or is not known: log in again")


def test_a_session_is_judged_alone_whatever_other_credentials_come_with_it(cluster: Cluster) -> None:
    session = {**log_in(cluster, NOBODY), "authorization": f"Bearer {OPERATOR}"}
    assert raw(cluster, "GET", PODS, headers=session).status == 403


def test_another_site_cannot_write_with_any_credentials(cluster: Cluster) -> None:
    token = {"authorization": f"Bearer {OPERATOR}", "sec-fetch-site": "cross-site"}
    body = {"metadata": {"name": "from-elsewhere"}}
    answer = raw(cluster, "POST", CONFIG_MAPS, body, token)
    assert (answer.status, answer.message) == (403, "the request comes from a page of another site")
    assert (
        raw(cluster, "POST", "/ui/session", {"token": VIEWER}, {"sec-fetch-site": "cross-site"}).status == 403
    )


def test_a_session_is_read_only_unless_changes_are_allowed(cluster: Cluster) -> None:
    reading, changing = log_in(cluster, OPERATOR), log_in(cluster, OPERATOR, changes=True)
    body = {"metadata": {"name": "from-the-page"}}
    refused = raw(cluster, "POST", CONFIG_MAPS, body, reading)
    assert (refused.status, refused.message) == (403, READ_ONLY)
    assert raw(cluster, "POST", f"{CONFIG_MAPS}?dryRun=All", body, reading).status == 201
    assert raw(cluster, "POST", CONFIG_MAPS, body, changing).status == 201
    assert raw(cluster, "DELETE", f"{CONFIG_MAPS}/from-the-page", headers=reading).status == 403
    assert raw(cluster, "DELETE", f"{CONFIG_MAPS}/from-the-page", headers=changing).status == 200
    token = "/api/v1/namespaces/default/serviceaccounts/default/token?dryRun=All"
    assert raw(cluster, "POST", token, {"spec": {}}, reading).message == READ_ONLY
    question = {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "Explanation",
        "spec": {"subject": {"kind": "namespace", "name": "default"}, "view": "stuck"},
    }
    asked = "/apis/fathom.dev/v1alpha1/namespaces/default/explanations"
    assert raw(cluster, "POST", asked, question, reading).status == 201


@pytest.mark.parametrize("subresource", ["exec?command=id&stdout=true", "attach?stdout=true", "portforward"])
def test_no_session_connects_to_a_pod(cluster: Cluster, subresource: str) -> None:
    """The connection would outlive the session."""
    asked = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
        "sec-websocket-protocol": "v5.channel.k8s.io",
    }
    for changes in (False, True):
        session = log_in(cluster, OPERATOR, changes=changes)
        answer = raw(cluster, "GET", f"{PODS}/any/{subresource}", headers={**session, **asked})
        assert (answer.status, answer.message) == (
            403,
            "a session of the page runs no commands in pods: use kubectl exec or fathom exec",
        )


def test_a_viewer_cannot_write_even_with_changes_allowed(cluster: Cluster) -> None:
    session = log_in(cluster, VIEWER, changes=True)
    answer = raw(cluster, "POST", CONFIG_MAPS, {"metadata": {"name": "x"}}, session)
    assert (answer.status, 'User "vera" cannot create' in answer.message) == (403, True)


def test_the_audit_log_names_the_user_and_the_browser(cluster: Cluster) -> None:
    session = {**log_in(cluster, OPERATOR, changes=True), "user-agent": "Tested/1.0"}
    assert raw(cluster, "POST", CONFIG_MAPS, {"metadata": {"name": "audited"}}, session).status == 201
    raw(cluster, "DELETE", f"{CONFIG_MAPS}/audited", headers=session)

    def entries() -> list[dict[str, object]]:
        logs = (cluster.data / "audit").glob("*.jsonl")
        lines = [line for file in logs for line in file.read_bytes().splitlines()]
        return [json.loads(line) for line in lines if b'"audited"' in line]

    until(lambda: len(entries()) == 2, lambda: str(entries()))
    assert "oscar" in json.dumps(entries()[0])
    assert "Tested/1.0" in json.dumps(entries()[0])


def test_files_are_public_and_carry_every_protecting_header(cluster: Cluster) -> None:
    answer = raw(cluster, "GET", "/ui/")
    wanted = {
        "content-type": "text/html; charset=utf-8",
        "cache-control": "no-cache",
        "content-security-policy": POLICY,
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
    }
    assert (answer.status, {name: answer.headers.get(name) for name in wanted}) == (200, wanted)
    script = raw(cluster, "GET", "/ui/main.js")
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    again = raw(cluster, "GET", "/ui/main.js", headers={"if-none-match": script.headers["etag"]})
    assert (again.status, again.text) == (304, "")
    assert raw(cluster, "GET", "/ui/", headers={"host": "evil.example"}).status == 403


def test_no_path_leads_out_of_the_page_s_files(cluster: Cluster) -> None:
    paths = ["/ui/../__init__.py", "/ui/..%2f__init__.py", "/ui/page.py", "/ui/views/", "/ui/static/main.js"]
    assert [raw(cluster, "GET", path).status for path in paths] == [404] * len(paths)


def test_a_browser_at_the_root_is_led_to_the_page_and_other_clients_are_not(cluster: Cluster) -> None:
    browser = raw(cluster, "GET", "/", headers={"accept": "text/html,*/*"})
    assert (browser.status, browser.headers["location"]) == (302, "/ui/")
    assert "/api/v1" in cluster.ask("GET", "/")["paths"]


def test_logging_out_ends_the_session_and_its_watches(cluster: Cluster) -> None:
    session = log_in(cluster, VIEWER)
    watching = connect(cluster)
    body = json.dumps({"watches": {"pods": f"{PODS}?resourceVersion=0"}})
    watching.request("POST", "/ui/watch", body=body, headers=session)
    stream = watching.getresponse()
    assert (stream.status, stream.read1(10)) == (200, b"\n")
    assert raw(cluster, "DELETE", "/ui/session", headers=session).status == 200
    assert stream.read().endswith(b'END","object":{}}\n')  # It ends by itself.
    watching.close()
    assert raw(cluster, "GET", PODS, headers=session).status == 401


def test_an_administrator_sees_and_ends_all_sessions_and_others_their_own(cluster: Cluster) -> None:
    viewer, operator = log_in(cluster, VIEWER), log_in(cluster, OPERATOR)
    mine = raw(cluster, "GET", "/ui/sessions", headers=viewer).json["sessions"]
    assert {each["user"] for each in mine} == {"vera"}
    everybody = cluster.ask("GET", "/ui/sessions")["sessions"]
    assert {"vera", "oscar"} <= {each["user"] for each in everybody}
    own = raw(cluster, "GET", "/ui/session", headers=operator).json["id"]
    assert raw(cluster, "DELETE", f"/ui/sessions/{own}", headers=viewer).status == 404
    assert cluster.ask("DELETE", f"/ui/sessions/{own}") == {"ended": [own]}
    assert raw(cluster, "GET", PODS, headers=operator).status == 401
    assert raw(cluster, "GET", PODS, headers=viewer).status == 200


def test_a_watch_that_is_refused_ends_with_saying_so(cluster: Cluster) -> None:
    watching = connect(cluster)
    body = json.dumps({"watches": {"pods": f"{PODS}?resourceVersion=0"}})
    watching.request("POST", "/ui/watch", body=body, headers=log_in(cluster, NOBODY))
    assert b'"code":403' in watching.getresponse().read()
    watching.close()


def test_removing_its_token_ends_a_session_and_its_watches(cluster: Cluster, namespace: str) -> None:
    binding = {
        "metadata": {"name": "nina"},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "name": "nina", "apiGroup": GROUP}],
    }
    cluster.ask("POST", f"{RBAC}/namespaces/{namespace}/rolebindings", binding)
    file, session, watching = cluster.data / "tokens.csv", log_in(cluster, NOBODY), connect(cluster)
    body = json.dumps({"watches": {"pods": f"/api/v1/namespaces/{namespace}/pods?resourceVersion=0"}})
    watching.request("POST", "/ui/watch", body=body, headers=session)
    stream = watching.getresponse()
    assert (stream.status, stream.read1(10)) == (200, b"\n")
    _write(file, "\n".join(line for line in TOKENS.splitlines() if "nina" not in line))
    try:
        assert stream.read().endswith(b'END","object":{}}\n')  # It ends by itself.
        assert raw(cluster, "GET", "/ui/session", headers=session).status == 401
    finally:
        _write(file, TOKENS)
        watching.close()


def _write(file: Path, text: str) -> None:
    file.write_text(text)


def test_deleting_its_service_account_ends_a_session(cluster: Cluster, namespace: str) -> None:
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    cluster.ask("POST", accounts, {"metadata": {"name": "robot"}})
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = cluster.ask("POST", f"{accounts}/robot/token", asked)["status"]["token"]
    session = log_in(cluster, token)
    who = raw(cluster, "GET", "/ui/session", headers=session).json["user"]
    assert who == f"system:serviceaccount:{namespace}:robot"
    cluster.ask("DELETE", f"{accounts}/robot")
    until(lambda: raw(cluster, "GET", "/ui/session", headers=session).status == 401, str)


def test_one_stream_carries_several_watches_and_says_which_are_refused(cluster: Cluster) -> None:
    session = log_in(cluster, VIEWER)
    watching = connect(cluster)
    watches = {"maps": f"{CONFIG_MAPS}?resourceVersion=0", "secrets": "/api/v1/secrets?resourceVersion=0"}
    watching.request("POST", "/ui/watch", body=json.dumps({"watches": watches}), headers=session)
    stream = watching.getresponse()
    refused = stream.readline()
    assert refused.startswith(b"secrets\t")
    assert json.loads(refused.partition(b"\t")[2])["object"]["code"] == 403
    cluster.ask("POST", CONFIG_MAPS, {"metadata": {"name": "watched"}})
    cluster.ask("DELETE", f"{CONFIG_MAPS}/watched")
    seen = []
    while ("DELETED", "watched") not in seen:
        name, _, line = stream.readline().partition(b"\t")
        if name == b"maps":
            event = json.loads(line)
            seen.append((event["type"], event["object"]["metadata"].get("name", "")))
    assert [each for each in seen if each[1] == "watched"] == [("ADDED", "watched"), ("DELETED", "watched")]
    watching.close()


def test_a_stream_of_watches_is_nothing_but_watches_of_the_api(cluster: Cluster) -> None:
    session = log_in(cluster, VIEWER)
    for watches in ({}, {"a": "/metrics"}, {"A b": PODS}, {f"w{number}": PODS for number in range(41)}):
        assert raw(cluster, "POST", "/ui/watch", {"watches": watches}, session).status == 400
    assert raw(cluster, "POST", "/ui/watch", {"watches": {"a": PODS}}).status == 403
