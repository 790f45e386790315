"""The aggregated API as kube-apiserver speaks to it, and as an attacker would: TLS, certificates, headers.

The cluster is fathom's own server without its kinds: it answers the reviews. What is asked is a whole
observer.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.api.harness import ADMIN
from tests.api.harness import JANE as JANES_TOKEN
from tests.ask.test_decisions import decision, outcome
from tests.attach.foreign import BUILT_IN, NODES, PODS, Foreign, foreign
from tests.attach.scheduled import accepted, granted
from tests.cli.asking import node, pod
from tests.security.people import grant, namespaces

from fathom import serve
from fathom.api.admission.addresses import ADDRESSES
from fathom.api.auth.certificates import Pki, ensure_pki, issue_client
from fathom.api.extension_authentication import config_map, reader_role
from fathom.attach import ask_listener
from fathom.attach.ask_listener import PRESENCE, AskListener, listen
from fathom.attach.ask_objects import SERVER_NAME, AskAddress, serving_questions
from fathom.attach.copying import ForeignCluster
from fathom.attach.installed import objects_to_install
from fathom.attach.installing import install
from fathom.attach.kinds import MirroredKind
from fathom.attach.rights import observing
from fathom.attach.survey import survey
from fathom.client.api import Resource
from fathom.client.once import api_of
from fathom.model.decision import Subject
from fathom.model.objects import Obj
from fathom.model.user import User
from fathom.record.journal import DiskJournal
from fathom.record.journal_reader import JournalReader
from fathom.record.journals import journal_directory
from fathom.seams.outside import SystemClock

pytestmark = pytest.mark.slow  # Each starts two servers.

GROUP = "/apis/ask.fathom.dev/v1alpha1"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
API_SERVICE = f"{SERVICES}/v1alpha1.ask.fathom.dev"
CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps"
MASTER = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
JANE = {"X-Remote-User": "jane"}
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


class Door:
    """Where kube-apiserver would knock."""

    def __init__(self, folder: Path, cluster: Foreign, port: int) -> None:
        self.cluster = cluster
        self.port = port
        self._folder = folder
        self.users, self.proxies = (self.authority(name) for name in ("users", "proxies"))

    def authority(self, name: str) -> Pki:
        return ensure_pki(self._folder / name, None, clock=SystemClock())

    def client(self, pki: Pki, name: str) -> tuple[Path, Path]:
        """A certificate and its key, as files."""
        pems = issue_client(pki, User(name), clock=SystemClock())
        signer = pki.ca_file.parent.parent
        files = tuple(signer / f"{name}.{suffix}" for suffix in ("crt", "key"))
        for file, pem in zip(files, pems, strict=True):
            file.write_bytes(pem)
        return files[0], files[1]

    @property
    def proxy(self) -> tuple[Path, Path]:
        return self.client(self.proxies, "front-proxy-client")

    async def tls(self, files: tuple[Path, Path] | None) -> ssl.SSLContext:
        """Of a client that knows of the server what the APIService says."""
        obj = (await self.cluster.api.get(API_SERVICE)).obj
        context = ssl.create_default_context(cadata=b64decode(obj["spec"]["caBundle"]).decode())
        if files is not None:
            context.load_cert_chain(*files)
        return context

    async def ask(
        self,
        path: str,
        headers: dict[str, str],
        *,
        files: tuple[Path, Path] | None = None,
        anonymous: bool = False,
        body: Obj | None = None,
        chunked: bool = False,
    ) -> tuple[int, Any]:
        """Status and object. With the front proxy's certificate, unless another is given, or none."""
        context = await self.tls(None if anonymous else files or self.proxy)
        url = f"https://127.0.0.1:{self.port}{path}"
        async with aiohttp.ClientSession() as session:
            method = "GET" if body is None else "POST"
            asked = session.request(
                method,
                url,
                headers=headers,
                json=body,
                ssl=context,
                server_hostname=SERVER_NAME,
                chunked=chunked or None,
            )
            async with asked as answer:
                is_json = "json" in answer.content_type
                return answer.status, await (answer.json(content_type=None) if is_json else answer.text())


@asynccontextmanager
async def asked_cluster(folder: Path) -> AsyncIterator[tuple[Door, socket.socket]]:
    """A cluster with the namespaces `default` and `team`, and where questions about it will be answered."""
    (folder / "copy").mkdir(mode=0o700)
    async with foreign(folder / "foreign") as cluster:
        listener = listen(AskAddress("127.0.0.1", 0))
        door = Door(folder, cluster, listener.getsockname()[1])
        await filled(door, folder / "copy")
        yield door, listener


@asynccontextmanager
async def observed(
    door: Door,
    listener: socket.socket,
    data: Path,
    *,
    in_cluster: bool = False,
    token: str = ADMIN,
    kinds: Sequence[MirroredKind] = BUILT_IN,
) -> AsyncIterator[None]:
    """While an observer serves questions. `token`: it is that user in the cluster."""
    cluster, process = door.cluster, "scheduler-fathom"
    copying = ForeignCluster(
        lambda: cluster.address(token), cluster.url, list(kinds), copied_before=False,
        journals={process: JournalReader(journal_directory(data, process))},
        ask_listener=AskListener(AskAddress("" if in_cluster else "127.0.0.1", door.port), listener),
    )  # fmt: skip
    serving = asyncio.create_task(
        serve._run(
            data, host="127.0.0.1", port=0, store=f"sqlite:{data}", plugins=[],
            service_addresses=ADDRESSES, page_hosts=(), warnings=[], copying=copying, own_kinds=True,
            drain_s=None,
        )
    )  # fmt: skip
    try:
        await until(lambda: is_published(door), serving)
        if kinds is BUILT_IN:  # Else the copy is never complete.
            await until(lambda: is_announced(data), serving)
        yield
        signal.raise_signal(signal.SIGTERM)  # As users stop it.
        await asyncio.wait_for(serving, 30)
    finally:
        serving.cancel()


async def filled(door: Door, data: Path) -> None:
    api = door.cluster.api
    trusted = config_map(door.users.ca_pem.decode(), door.proxies.ca_pem.decode())
    assert (await api.post(CONFIG_MAPS, trusted)).status == 201
    await namespaces(api, "team")
    await api.post(NODES, node("node-1", "4"))
    await api.post(PODS, pod("web", "1"))
    await api.post(PODS.replace("default", "team"), pod("db", "9"))
    address = AskAddress("192.0.2.1", door.port)
    async with api_of(door.cluster.address()) as client:
        lines = await install(client, accepted(objects_to_install(observe_only=True, ask_api=address)))
    assert "created apiservice v1alpha1.ask.fathom.dev" in lines
    for namespace in ("default", "team"):
        await grant(api, f"{namespace}-viewer", "view", namespace)
    await grant(api, "jane", "view", "default")
    journal = DiskJournal(journal_directory(data, "scheduler-fathom"))
    journal.decided(decision("a-1", "web"))
    journal.concluded(outcome("a-1", 42))
    journal.decided(decision("a-2", "db", subject=Subject("pods", "team", "db")))
    journal.close()


async def is_published(door: Door) -> bool:
    obj = (await door.cluster.api.get(API_SERVICE)).obj
    return bool(obj["spec"].get("caBundle"))


async def is_announced(data: Path) -> bool:
    """It says so when the copy is complete."""
    return (data / "kubeconfig").exists()


async def until(check: Callable[[], Awaitable[bool]], serving: asyncio.Task[None] | None = None) -> None:
    async with asyncio.timeout(30):
        while not await check():
            assert serving is None or not serving.done(), serving.exception()
            await asyncio.sleep(0.05)


def told(story: Callable[[Door], Awaitable[None]], folder: Path) -> None:
    async def main() -> None:
        async with asked_cluster(folder) as (door, listener), observed(door, listener, folder / "copy"):
            await story(door)

    asyncio.run(main())


def names(listed: Obj) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


def test_kubectl_s_questions_are_answered_with_the_rights_of_their_user(tmp_path: Path) -> None:
    async def story(door: Door) -> None:
        # An administrator reads everything, with the names of nodes.
        code, listed = await door.ask(f"{GROUP}/decisions", MASTER)
        assert (code, listed["kind"], listed["apiVersion"]) == (
            200,
            "DecisionList",
            "ask.fathom.dev/v1alpha1",
        )
        assert names(listed) == ["a-1", "a-2"]
        assert {item["apiVersion"] for item in listed["items"]} == {"ask.fathom.dev/v1alpha1"}
        assert listed["items"][0]["spec"]["node"] == "node-1"
        code, table = await door.ask(f"{GROUP}/namespaces/team/decisions", {**MASTER, **TABLE})
        assert (code, table["kind"]) == (200, "Table")
        assert [column["name"] for column in table["columnDefinitions"]][:3] == [
            "Name",
            "Object",
            "Controller",
        ]
        code, answer = await door.ask(f"{GROUP}/namespaces/team/explanations/pod.db", MASTER)
        assert (code, answer["kind"], answer["apiVersion"]) == (200, "Explanation", "ask.fathom.dev/v1alpha1")
        assert "not scheduled" in answer["status"]["summary"]
        code, table = await door.ask(f"{GROUP}/namespaces/team/explanations/pod.db", {**MASTER, **TABLE})
        assert table["rows"][0]["cells"][:2] == ["pod.db", answer["status"]["summary"]]
        code, answer = await door.ask(f"{GROUP}/namespaces/fathom-system/explanations/node.node-1", MASTER)
        assert (code, answer["metadata"]["name"]) == (200, "node.node-1")
        for kind in ("Explanation", "Timeline", "Coupling"):
            question = {
                "apiVersion": "ask.fathom.dev/v1alpha1", "kind": kind, "metadata": {"name": "q"},
                "spec": {"subject": {"kind": "Pod", "name": "web"}},
            }  # fmt: skip
            path = f"{GROUP}/namespaces/default/{kind.lower()}s"
            for who in (MASTER, JANE):
                code, answer = await door.ask(path, who, body=question)
                assert (code, answer["kind"], answer["metadata"]["name"]) == (201, kind, "pod.web"), answer

        # A user of one namespace reads that, without the names of nodes, and nothing of another.
        code, listed = await door.ask(f"{GROUP}/decisions", JANE)
        assert (code, names(listed)) == (200, ["a-1"])
        assert "node" not in listed["items"][0]["spec"]
        assert "node-1" not in str(listed)
        assert (await door.ask(f"{GROUP}/namespaces/team/decisions", JANE))[1]["items"] == []
        assert (await door.ask(f"{GROUP}/namespaces/team/decisions/a-2", JANE))[0] == 404
        assert (await door.ask(f"{GROUP}/namespaces/default/decisions/a-2", JANE))[0] == 404
        code, refused = await door.ask(f"{GROUP}/namespaces/team/explanations/pod.db", JANE)
        assert (code, refused["kind"], refused["reason"]) == (403, "Status", "Forbidden")
        assert refused["message"] == (
            'pods "db" is forbidden: User "jane" cannot get resource "pods" in API group "" in the namespace'
            ' "team"'
        )
        hidden = {"kind": "Explanation", "apiVersion": "ask.fathom.dev/v1alpha1", "metadata": {}}
        hidden["spec"] = {"subject": {"kind": "Pod", "namespace": "team", "name": "db"}}
        code, refused = await door.ask(f"{GROUP}/namespaces/default/explanations", JANE, body=hidden)
        assert (code, refused["kind"]) == (400, "Status")
        code, _ = await door.ask(f"{GROUP}/namespaces/fathom-system/explanations/node.node-1", JANE)
        assert code == 403
        code, _ = await door.ask(f"{GROUP}/namespaces/default/explanations/secret.any", JANE)
        assert code == 403

    told(story, tmp_path)


def test_what_does_not_come_from_the_front_proxy_is_refused(tmp_path: Path) -> None:
    async def story(door: Door) -> None:
        path = f"{GROUP}/namespaces/default/decisions"
        assert (await door.ask(path, MASTER))[0] == 200
        code, refused = await door.ask(path, MASTER, anonymous=True)
        assert (code, refused["kind"], refused["reason"]) == (401, "Status", "Unauthorized")
        token = {"Authorization": "Bearer admin-token"}
        assert (await door.ask(path, {**MASTER, **token}, anonymous=True))[0] == 401
        assert (await door.ask(path, token, anonymous=True))[0] == 401
        other = door.client(door.proxies, "jane")  # The right CA, a name that is not allowed.
        assert (await door.ask(path, MASTER, files=other))[0] == 401
        assert (await door.ask(path, {}))[0] == 401  # The proxy names nobody.
        assert (await door.ask(path, {"X-Remote-Group": "system:masters"}))[0] == 401
        for pki in (door.users, door.authority("somebody")):  # Another CA: no connection at all.
            for name in ("front-proxy-client", "admin"):
                with pytest.raises((aiohttp.ClientError, ssl.SSLError, OSError)):
                    await door.ask(path, MASTER, files=door.client(pki, name))
        code, refused = await door.ask(path, {**JANE, "Impersonate-User": "admin"})
        assert (code, refused["reason"]) == (403, "Forbidden")
        code, refused = await door.ask(path, {**JANE, "Impersonate-Group": "system:masters"})
        assert code == 403
        # A body is not read from who is not believed, and not a large one from anybody.
        body = {"spec": {"subject": {"kind": "Pod", "name": "web"}}, "metadata": {"name": "x" * 100_000}}
        asking = f"{GROUP}/namespaces/default/explanations"
        assert (await door.ask(asking, MASTER, body=body, anonymous=True))[0] == 401
        assert (await door.ask(asking, MASTER, body=body))[0] == 413
        # Of a body in chunks, nobody knows the size before.
        question = {"kind": "Explanation", "apiVersion": "ask.fathom.dev/v1alpha1", "metadata": {}}
        question["spec"] = {"subject": {"kind": "Pod", "name": "web"}}
        for sent, expected in ((question, 201), (body, 413)):
            assert (await door.ask(asking, MASTER, body=sent, chunked=True))[0] == expected
        assert (await door.ask("/readyz", {}, anonymous=True)) == (200, "ok")  # For kubelets.

    told(story, tmp_path)


def test_nothing_but_the_group_is_served(tmp_path: Path) -> None:
    async def story(door: Door) -> None:
        code, listed = await door.ask(GROUP, JANE)
        assert (code, listed["groupVersion"]) == (200, "ask.fathom.dev/v1alpha1")
        assert {each["name"]: each["verbs"] for each in listed["resources"]} == {
            "couplings": ["create", "get"], "decisions": ["get", "list"], "explanations": ["create", "get"],
            "timelines": ["create", "get"],
        }  # fmt: skip
        assert (await door.ask("/apis/ask.fathom.dev", JANE))[1]["preferredVersion"]["version"] == "v1alpha1"
        groups = (await door.ask("/apis", JANE))[1]["groups"]
        assert [each["name"] for each in groups] == ["ask.fathom.dev"]
        aggregated = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
        (group,) = (await door.ask("/apis", {**JANE, **aggregated}))[1]["items"]
        assert group["metadata"]["name"] == "ask.fathom.dev"
        documents = (await door.ask("/openapi/v3", JANE))[1]["paths"]
        assert list(documents) == ["apis/ask.fathom.dev/v1alpha1"]
        schemas = (await door.ask("/openapi/v3/apis/ask.fathom.dev/v1alpha1", JANE))[1]["components"][
            "schemas"
        ]
        assert "dev.fathom.ask.v1alpha1.Explanation" in schemas
        for path in (
            "/", "/api", "/api/v1/pods", "/api/v1/namespaces/default/pods/web", "/metrics", "/page",
            "/apis/fathom.dev/v1alpha1/decisions", "/apis/ask.fathom.dev/v1/decisions", "/debug",
            f"{GROUP}/namespaces/default/explanations/pod.web/status", f"{GROUP}/overridepreviews",
        ):  # fmt: skip
            code, refused = await door.ask(path, MASTER)
            assert (path, code, refused["kind"]) == (path, 404, "Status")
        assert (await door.ask(f"{GROUP}/namespaces/default/explanations", MASTER))[0] == 405
        assert (await door.ask(f"{GROUP}/decisions?watch=1", MASTER))[0] == 405

    told(story, tmp_path)


def test_another_ca_of_the_cluster_is_believed_and_the_old_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ask_listener, "LOOK_S", 0.1)

    async def story(door: Door) -> None:
        path, old = f"{GROUP}/namespaces/default/decisions", door.proxy
        assert (await door.ask(path, MASTER))[0] == 200
        door.proxies = door.authority("renewed")
        changed = {"data": {"requestheader-client-ca-file": door.proxies.ca_pem.decode()}}
        named = f"{CONFIG_MAPS}/extension-apiserver-authentication"
        assert (await door.cluster.api.patch(named, changed)).status == 200
        renewed = door.proxy

        async def is_renewed() -> bool:
            try:
                return (await door.ask(path, MASTER, files=renewed))[0] == 200
            except (aiohttp.ClientError, ssl.SSLError, OSError):
                return False

        await until(is_renewed)
        with pytest.raises((aiohttp.ClientError, ssl.SSLError, OSError)):
            await door.ask(path, MASTER, files=old)

    told(story, tmp_path)


@pytest.mark.parametrize("in_cluster", [False, True])
def test_what_leads_to_a_process_goes_with_it_but_not_what_leads_to_pods(
    tmp_path: Path, in_cluster: bool
) -> None:
    """An APIService that nobody answers keeps a cluster from deleting namespaces. A pod comes again."""

    async def main() -> None:
        async with asked_cluster(tmp_path) as (door, listener):
            async with observed(door, listener, tmp_path / "copy", in_cluster=in_cluster):
                assert (await door.ask(GROUP, JANE))[0] == 200
            async with api_of(door.cluster.address()) as api:
                left = [
                    kind
                    for kind, resource, namespace, name in PRESENCE
                    if await api.get(resource, namespace, name) is not None
                ]
            assert left == (["APIService", "EndpointSlice", "Service"] if in_cluster else [])

    asyncio.run(main())


def test_while_the_copy_is_not_complete_the_group_is_there_and_answers_nothing(tmp_path: Path) -> None:
    """Were the group not there, the cluster could delete no namespace meanwhile."""
    missing = MirroredKind("Widget", Resource("example.com", "v1", "widgets"), "")

    async def main() -> None:
        async with asked_cluster(tmp_path) as (door, listener):
            kinds = [*BUILT_IN, missing]  # Its list never comes.
            async with observed(door, listener, tmp_path / "copy", kinds=kinds):
                assert (await door.ask(GROUP, MASTER))[0] == 200
                code, refused = await door.ask(f"{GROUP}/namespaces/default/decisions", MASTER)
                assert (code, refused["message"]) == (
                    503,
                    "the objects of the cluster are still being copied",
                )

    asyncio.run(main())


def test_the_installed_roles_are_enough_to_serve_questions(tmp_path: Path) -> None:
    async def main() -> None:
        async with asked_cluster(tmp_path) as (door, listener):
            roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles"
            assert (await door.cluster.api.post(roles, reader_role())).status == 201
            objects = objects_to_install(observe_only=True, ask_api=AskAddress("", door.port))
            await granted(door.cluster, accepted(objects))
            async with api_of(door.cluster.address(JANES_TOKEN)) as api:
                seen = await survey(api, door.cluster.url, [*observing(), *serving_questions()])
            assert seen.denied == frozenset()
            data = tmp_path / "copy"
            async with observed(door, listener, data, in_cluster=True, token=JANES_TOKEN):
                assert (await door.ask(f"{GROUP}/namespaces/default/decisions", MASTER))[0] == 200

    asyncio.run(main())
