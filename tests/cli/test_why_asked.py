"""`fathom why` asks a real API server, over a socket, as another process."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.api.harness import Api
from tests.ask.processes import AskedProcess
from tests.cli.asking import PODS, Fathom, commands_of, listening, node, pod, told

from fathom.ask.decisions import VisibleParts, decision_object
from fathom.cli.ask.explanations import ANSWERS_NO_QUESTIONS
from fathom.explain.evidence import Recorded
from fathom.model.decision import Decision, KeptDecision, Subject


async def filled(api: Api) -> None:
    for made in (node("node-1", "1"), node("node-2", "666m")):
        assert (await api.post("/api/v1/nodes", made)).status == 201
    for made in (pod("large", "2"), pod("small", "100m")):
        assert (await api.post(PODS, made)).status == 201


def test_pods_are_explained_by_name_and_the_exit_code_says_whether_all_is_well(tmp_path: Path) -> None:
    async def dialogue(api: Api, scheduler: AskedProcess, fathom: Fathom) -> None:
        await filled(api)
        code, out, err = await fathom("why", "pod/large")
        assert (code, err) == (1, "")
        assert out.startswith("pod default/large is not scheduled: no scheduler named 'default-scheduler'")
        assert "or: lower cpu of container web to 1 (the pod's owner)" in out
        code, out, _ = await fathom("why", "large", "pod/small", "-o", "json")
        assert code == 1
        assert [document["subject"]["name"] for document in json.loads(out)] == ["large", "small"]

    told(dialogue, tmp_path)


def test_an_object_that_never_was_is_named_in_one_line_and_the_others_are_explained(tmp_path: Path) -> None:
    async def dialogue(api: Api, scheduler: AskedProcess, fathom: Fathom) -> None:
        await filled(api)
        line = "fathom: error: there is no pod default/nosuch, and nothing is on record about one\n"
        assert await fathom("why", "pod/nosuch") == (1, "", line)
        code, out, err = await fathom("why", "pod/nosuch", "pod/large")
        assert (code, err) == (1, line)
        assert out.startswith("pod default/large is not scheduled")
        _, _, err = await fathom("why", "node/nosuch")
        assert "there is no node nosuch, and nothing is on record about one" in err
        code, _, err = await fathom("why", "gadget/x")
        assert (code, "there is no kind 'gadget'" in err) == (2, True)

    told(dialogue, tmp_path)


def test_what_is_stuck_is_listed_for_a_namespace_and_for_the_cluster(tmp_path: Path) -> None:
    async def dialogue(api: Api, scheduler: AskedProcess, fathom: Fathom) -> None:
        await filled(api)
        await api.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
        await api.post("/api/v1/namespaces/team/pods", pod("huge", "3"))
        stuck = {}
        for words in (("-n", "team"), ("-A",)):
            code, out, err = await fathom("why", *words, "-o", "json")
            assert code == 1, err
            names = {item["subject"]["name"] for item in json.loads(out)["items"]}
            stuck[words[0]] = names & {"huge", "large", "node-1"}
        assert stuck == {"-n": {"huge"}, "-A": {"huge", "large", "node-1"}}
        _, out, _ = await fathom("why", "-n", "team")
        sentence, command = out.splitlines()
        assert sentence.startswith("pod team/huge is not scheduled")
        assert command.split()[:2] in (["$", "kubectl"], ["$", "fathom"])

    told(dialogue, tmp_path)


def test_a_change_can_be_tried_and_nothing_is_written(tmp_path: Path) -> None:
    async def dialogue(api: Api, scheduler: AskedProcess, fathom: Fathom) -> None:
        await filled(api)
        larger = 'node/node-2={"status":{"allocatable":{"cpu":"4"}}}'
        _, out, _ = await fathom("why", "pod/large", "-o", "json", "--what-if", larger)
        assert json.loads(out)["now"]["answer"] == "it fits node-2"
        _, out, _ = await fathom("why", "pod/large", "--what-if", larger)
        assert out.startswith('If node/node-2 had {"status":{"allocatable":{"cpu":"4"}}}:\npod default/large')
        assert (await api.get("/api/v1/nodes/node-2")).obj["status"]["allocatable"]["cpu"] == "666m"
        code, _, err = await fathom("why", "pod/large", "--what-if", "node-2")
        assert (code, "KIND/NAME=PATCH" in err) == (2, True)

    told(dialogue, tmp_path)


def test_a_bare_name_that_several_objects_have_is_refused_with_what_it_may_be(tmp_path: Path) -> None:
    async def dialogue(api: Api, scheduler: AskedProcess, fathom: Fathom) -> None:
        await filled(api)
        port = {"ports": [{"port": 80}]}
        service = {"kind": "Service", "apiVersion": "v1", "metadata": {"name": "small"}, "spec": port}
        assert (await api.post("/api/v1/namespaces/default/services", service)).status == 201
        code, _, err = await fathom("why", "small")
        assert (code, err) == (2, "fathom: error: small may be pod/small, service/small: name the kind\n")

    told(dialogue, tmp_path)


class OtherServer(asyncio.Protocol):
    """An API server without fathom's kinds, with one answer for every request."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        head = f"HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: {len(self._content)}\r\n\r\n"
        self._transport.write(head.encode() + self._content)
        self._transport.close()


@pytest.mark.parametrize(
    "content",
    [
        b"404 page not found\n",
        b'{"kind":"Status","reason":"NotFound","message":"the server could not find the requested resource"}',
    ],
    ids=["no such group", "no such resource"],
)
def test_a_server_that_answers_no_questions_is_named_as_such(tmp_path: Path, content: bytes) -> None:
    async def asked_in_vain() -> None:
        async with listening(lambda: OtherServer(content)) as url:
            fathom = commands_of(url, tmp_path)
            for words in (
                ("why", "pod/web"), ("why", "-A"), ("status", "deployment/web"),
                ("timeline", "pod/web"), ("coupling", "autoscaling"), ("coupling", "deploy/web"),
                ("decisions", "-n", "default"),
            ):  # fmt: skip
                line = ANSWERS_NO_QUESTIONS
                assert await fathom(*words) == (2, "", f"fathom: error: {line}\n"), words

    asyncio.run(asked_in_vain())


DECIDED = Decision(
    id="a-1", time_ns=1_700_000_000_000_000_000, controller="scheduler", verdict="bind",
    subject=Subject("pods", "team", "web"),
)  # fmt: skip


class AttachedServer(asyncio.Protocol):
    """A Kubernetes that fathom is attached to: it has a kind of fathom's itself, and leads to its answers."""

    def __init__(self, code: int) -> None:
        self._code = code  # For a kind that it does not have: 403 for who may not use it, else 404.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        path = data.split(b" ", 2)[1].decode()
        code, answer = self._answered(path)
        content = json.dumps(answer)
        head = f"HTTP/1.1 {code} X\r\nconnection: close\r\ncontent-length: {len(content)}\r\n\r\n"
        self._transport.write(head.encode() + content.encode())
        self._transport.close()

    def _answered(self, path: str) -> tuple[int, dict[str, object]]:
        if path == "/apis/fathom.dev/v1alpha1":
            return 200, {"resources": [{"name": "scheduleroverrides"}]}
        if path.startswith("/apis/ask.fathom.dev/v1alpha1/namespaces/team/decisions"):
            return 200, {"items": [decision_object(Recorded("x", KeptDecision(DECIDED)), VisibleParts())]}
        if path.startswith("/apis/ask.fathom.dev/v1alpha1/namespaces/team/"):
            return 201, {"status": {"summary": "pod team/web waits"}}
        return self._code, {"message": "the server could not find the requested resource", "reason": "X"}


@pytest.mark.parametrize("code", [403, 404])
def test_a_cluster_that_leads_to_fathom_is_asked_itself(tmp_path: Path, code: int) -> None:
    async def asked() -> None:
        async with listening(lambda: AttachedServer(code)) as url:
            fathom = commands_of(url, tmp_path)
            exit_code, out, err = await fathom("why", "pod/web", "-n", "team")
            assert (exit_code, out.splitlines()[:1], err) == (1, ["pod team/web waits"], "")
            exit_code, out, err = await fathom("decisions", "-n", "team")
            assert (exit_code, out.splitlines()[1].split()[1], err) == (0, "a-1", "")

    asyncio.run(asked())
