"""A real kubectl asks: discovery, tables, forms of a question, warnings, and a user of one namespace."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.api.harness import Api, pod
from tests.ask.processes import AskedProcess, asked_server
from tests.ask.test_decisions import decision, outcome
from tests.ask.test_explanations import node
from tests.clients.kubectl import Done, Kubectl
from tests.security.people import grant, namespaces

from fathom.api.auth.certificates import ADMIN, Pki, kubeconfig
from fathom.api.auth.tls import server_context
from fathom.api.http import Http
from fathom.model.decision import Subject
from fathom.model.user import User
from fathom.seams.outside import SystemClock


class Terminal:
    """kubectl as one user, in a thread: the server it asks runs on the test's loop."""

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl = kubectl

    async def run(self, command: str, stdin: str | None = None) -> Done:
        return await asyncio.to_thread(self._kubectl.run, command, stdin=stdin)


Story = Callable[[Api, AskedProcess, Callable[[User], Terminal]], Awaitable[None]]


def at_a_terminal(story: Story, binary: str, data: Path) -> None:
    async def main() -> None:
        async with asked_server(data) as (api, pki):
            listener = socket.create_server(("127.0.0.1", 0))
            http = Http(api.parts.server, keep_alive_s=60)
            loop = asyncio.get_running_loop()
            listening = await loop.create_server(http.connection, sock=listener, ssl=server_context(pki))
            scheduler = AskedProcess("deciders", "scheduler", data / "journal" / "scheduler", pki)
            await scheduler.start(api)
            url = f"https://127.0.0.1:{listener.getsockname()[1]}"
            try:
                await story(api, scheduler, lambda user: _terminal(binary, data, pki, url, user))
            finally:
                listening.close()
                await http.stop(patience_s=1)
                await scheduler.stop()
                scheduler.journal.close()

    asyncio.run(main())


def _terminal(binary: str, data: Path, pki: Pki, url: str, user: User) -> Terminal:
    file = data / f"kubeconfig-{user.name}"
    file.write_text(kubeconfig(pki, url, user, clock=SystemClock()))
    return Terminal(Kubectl(binary, file, data / "home", "team"))


@pytest.mark.live
@pytest.mark.kubectl
def test_kubectl_finds_the_kinds_prints_decisions_and_asks(kubectl: str, tmp_path: Path) -> None:
    async def story(api: Api, scheduler: AskedProcess, login: Callable[[User], Terminal]) -> None:
        await namespaces(api, "team")
        await api.post("/api/v1/namespaces/team/pods", pod("db-1"))
        about = Subject("pods", "team", "db-1")
        scheduler.journal.decided(decision("a-1", "db-1", subject=about))
        scheduler.journal.concluded(outcome("a-1", 42))
        admin = login(ADMIN)
        resources = (await admin.run("api-resources --api-group fathom.dev -o name")).out
        for kind in ("decisions", "explanations", "timelines", "couplings", "overridepreviews"):
            assert f"{kind}.fathom.dev" in resources
        table = (await admin.run("get decisions")).out.splitlines()
        assert table[0].split() == ["NAME", "OBJECT", "CONTROLLER", "VERDICT", "RESULT", "AGE"]
        assert table[1].split()[:5] == ["a-1", "pods/db-1", "scheduler", "bind", "committed"]
        shown = json.loads((await admin.run("get decision a-1 -o json")).out)
        assert shown["spec"]["subject"]["name"] == "db-1"
        by_name = await admin.run("get explanation pod.db-1 -o json")
        assert json.loads(by_name.out)["status"]["subject"]["name"] == "db-1", by_name.err
        question = {
            "apiVersion": "fathom.dev/v1alpha1",
            "kind": "Explanation",
            "metadata": {"generateName": "question-"},
            "spec": {"subject": {"kind": "Pod", "name": "db-1"}},
        }
        sent = await admin.run("create -o json -f -", stdin=json.dumps(question))
        assert json.loads(sent.out)["status"]["subject"]["name"] == "db-1", sent.err
        assert "FIELDS" in (await admin.run("explain explanation.spec.subject")).out
        missing = await admin.run("get decision nobody")
        assert (missing.code, "NotFound" in missing.err) == (1, True)

    at_a_terminal(story, kubectl, tmp_path)


@pytest.mark.live
@pytest.mark.kubectl
def test_a_user_of_one_namespace_asks_there_and_a_dead_scheduler_is_said(
    kubectl: str, tmp_path: Path
) -> None:
    async def story(api: Api, scheduler: AskedProcess, login: Callable[[User], Terminal]) -> None:
        await namespaces(api, "team", "other")
        await grant(api, "tom", "view", "team")
        await api.post("/api/v1/nodes", node("node-1"))
        for namespace in ("team", "other"):
            await api.post(f"/api/v1/namespaces/{namespace}/pods", pod("db-1"))
        for number, namespace in enumerate(("team", "other"), 1):
            subject = Subject("pods", namespace, "db-1")
            scheduler.journal.decided(decision(f"a-{number}", "db-1", subject=subject))
        tom = login(User("tom", ("system:authenticated",)))
        listed = (await tom.run("get decisions -A -o name")).out.split()
        assert listed == ["decision.fathom.dev/a-1"]
        assert "node-1" not in (await tom.run("get decision a-1 -o yaml")).out
        answer = json.loads((await tom.run("get explanation pod.db-1 -o json")).out)
        assert answer["status"]["subject"]["namespace"] == "team"
        refused = await tom.run("get explanation pod.db-1 --namespace other")
        assert (refused.code, "Forbidden" in refused.err) == (1, True)
        assert (await tom.run("get explanation node.node-1")).code == 1
        await scheduler.stop()
        silent = await tom.run("get decisions")
        assert "Warning: no data from the journal of deciders" in silent.err
        status = json.loads((await tom.run("get explanation pod.db-1 -o json")).out)["status"]
        assert [gap["source"] for gap in status["gaps"]] == ["journal of deciders"]

    at_a_terminal(story, kubectl, tmp_path)
