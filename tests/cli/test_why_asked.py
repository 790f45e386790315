"""`fathom why` asks a real API server, over a socket, as another process."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.api.harness import ADMIN, Api, tell
from tests.explain.builders import container

from fathom.api.http import Http

Obj = dict[str, Any]
Why = Callable[..., Awaitable[tuple[int, str, str]]]
Dialogue = Callable[[Api, Why], Awaitable[None]]

PODS = "/api/v1/namespaces/default/pods"


def told(dialogue: Dialogue, data: Path) -> None:
    async def story(api: Api) -> None:
        http = Http(api.parts.server, keep_alive_s=60)
        server = await asyncio.get_running_loop().create_server(http.connection, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()[:2]
        config = data / "kubeconfig"
        config.write_text(json.dumps(kubeconfig(f"http://{host}:{port}")))

        async def why(*words: str) -> tuple[int, str, str]:
            command = [sys.executable, "-m", "fathom.cli", "why", *words, "--kubeconfig", str(config)]
            process = await asyncio.create_subprocess_exec(
                *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
            )
            out, err = await asyncio.wait_for(process.communicate(), 60)
            return process.returncode or 0, out.decode(), err.decode()

        try:
            await dialogue(api, why)
        finally:
            server.close()
            await http.stop(patience_s=1)

    tell(story, data)


def kubeconfig(url: str) -> Obj:
    return {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": ADMIN}}],
    }


def node(name: str, cpu: str) -> Obj:
    room = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}, "status": {"allocatable": room}}


def pod(name: str, cpu: str) -> Obj:
    spec = {"containers": [container(cpu=cpu)]}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name}, "spec": spec}


async def filled(api: Api) -> None:
    for made in (node("node-1", "1"), node("node-2", "666m")):
        assert (await api.post("/api/v1/nodes", made)).status == 201
    for made in (pod("large", "2"), pod("small", "100m")):
        assert (await api.post(PODS, made)).status == 201


def test_pods_are_explained_by_name_and_the_exit_code_says_whether_all_is_well(tmp_path: Path) -> None:
    async def dialogue(api: Api, why: Why) -> None:
        await filled(api)
        code, out, err = await why("pod/large")
        assert (code, err) == (1, "")
        assert out.startswith("pod default/large is not scheduled: no scheduler named 'default-scheduler'")
        assert "or: lower cpu of container web to 1 (the pod's owner)" in out
        code, out, _ = await why("large", "pod/small", "-o", "json")
        assert code == 1
        assert [document["subject"]["name"] for document in json.loads(out)] == ["large", "small"]
        code, out, _ = await why("pod/nosuch")
        assert (code, out.splitlines()[0]) == (
            1, "pod default/nosuch does not exist: there is no pod of this name, and no record of one",
        )  # fmt: skip

    told(dialogue, tmp_path)


def test_a_change_can_be_tried_and_nothing_is_written(tmp_path: Path) -> None:
    async def dialogue(api: Api, why: Why) -> None:
        await filled(api)
        larger = 'node/node-2={"status":{"allocatable":{"cpu":"4"}}}'
        _, out, _ = await why("pod/large", "-o", "json", "--what-if", larger)
        assert json.loads(out)["now"]["answer"] == "it fits node-2"
        assert (await api.get("/api/v1/nodes/node-2")).obj["status"]["allocatable"]["cpu"] == "666m"
        code, _, err = await why("pod/large", "--what-if", "node-2")
        assert (code, "KIND/NAME=PATCH" in err) == (2, True)

    told(dialogue, tmp_path)


def test_a_bare_name_that_several_objects_have_is_refused_with_what_it_may_be(tmp_path: Path) -> None:
    async def dialogue(api: Api, why: Why) -> None:
        await filled(api)
        port = {"ports": [{"port": 80}]}
        service = {"kind": "Service", "apiVersion": "v1", "metadata": {"name": "small"}, "spec": port}
        assert (await api.post("/api/v1/namespaces/default/services", service)).status == 201
        code, _, err = await why("small")
        assert (code, err) == (2, "fathom: error: small may be pod/small, service/small: name the kind\n")

    told(dialogue, tmp_path)
