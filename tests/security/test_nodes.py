"""A node speaks for itself and its pods: no mirror pod opens an account, no node vouches for itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.api.harness import Api, tell
from tests.security.people import OWN, introduce, namespaces, node, own, pod

from fathom.model.objects import Obj

ME = "system:node:n1"
CERTIFICATE_REQUESTS = "/apis/certificates.k8s.io/v1/podcertificaterequests"
MIRROR = {"kubernetes.io/config.mirror": "x"}


async def register(api: Api) -> str:
    introduce(api, node("n1"), node("n2"))
    for name in ("n1", "n2"):
        made = await api.post("/api/v1/nodes", {"metadata": {"name": name}}, token=f"system:node:{name}")
        assert made.status == 201, made.obj
    await namespaces(api, "bank")
    for account in ("default", "teller"):
        await api.post("/api/v1/namespaces/bank/serviceaccounts", {"metadata": {"name": account}})
    found = await api.get("/api/v1/nodes/n1")
    return str(found.obj["metadata"]["uid"])


def mirror(uid: str, **spec: Any) -> Obj:
    made = pod("static-n1", annotations=MIRROR, nodeName="n1", **spec)
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid, "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    return made


def token_for(bound: Obj, *audiences: str) -> Obj:
    ref = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": bound["metadata"]["name"],
        "uid": bound["metadata"]["uid"],
    }
    spec = {"audiences": list(audiences), "boundObjectRef": ref}
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}


def test_a_mirror_pod_opens_no_service_account(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        uid = await register(api)
        made = await api.post("/api/v1/namespaces/bank/pods", mirror(uid), token=ME)
        assert made.status == 201, made.obj
        path = "/api/v1/namespaces/bank/serviceaccounts/default/token"
        stolen = await api.post(path, token_for(made.obj), token=ME)
        assert stolen.status == 403, stolen.obj

    tell(story, tmp_path)


def test_a_mirror_pod_opens_nothing_whoever_made_it(tmp_path: Path) -> None:
    """An administrator may make one that refers to what it likes: a node that runs one reads no API."""

    async def story(api: Api) -> None:
        uid = await register(api)
        await api.post("/api/v1/namespaces/bank/configmaps", {"metadata": {"name": "c"}, "data": {"a": "b"}})
        volumes = [{"name": "c", "configMap": {"name": "c"}}]
        made = await api.post("/api/v1/namespaces/bank/pods", mirror(uid, volumes=volumes))
        assert made.status == 201, made.obj
        read = await api.get("/api/v1/namespaces/bank/configmaps/c", token=ME)
        assert read.status == 403, read.obj

    tell(story, tmp_path)


@pytest.mark.parametrize(
    "spec",
    [
        {"serviceAccountName": "teller"},
        {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
        {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
    ],
    ids=["account", "secret", "token"],
)
def test_nobody_makes_a_mirror_pod_that_runs_as_an_account_or_reads_secrets(
    spec: Obj, tmp_path: Path
) -> None:
    async def story(api: Api) -> None:
        uid = await register(api)
        for who in (ME, "admin-token"):
            made = await api.post("/api/v1/namespaces/bank/pods", mirror(uid, **spec), token=who)
            assert made.status == 403, made.obj

    tell(story, tmp_path)


def test_a_node_gets_tokens_only_for_the_audiences_that_its_pod_asks_for(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await register(api)
        source = {"serviceAccountToken": {"path": "t", "audience": "vault"}}
        volumes = [{"name": "v", "projected": {"sources": [source]}}]
        pods = "/api/v1/namespaces/bank/pods"
        made = await api.post(pods, pod("web", nodeName="n1", serviceAccountName="teller", volumes=volumes))
        path = "/api/v1/namespaces/bank/serviceaccounts/teller/token"
        for audiences, status in (((), 201), (("vault",), 201), (("other",), 403), (("vault", "other"), 403)):
            given = await api.post(path, token_for(made.obj, *audiences), token=ME)
            assert given.status == status, (audiences, given.obj)

    tell(story, tmp_path)


def test_a_node_gets_no_token_of_pods_elsewhere_of_other_accounts_or_bound_to_nothing(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await register(api)
        pods = "/api/v1/namespaces/bank/pods"
        mine = (await api.post(pods, pod("mine", nodeName="n1", serviceAccountName="teller"))).obj
        other = (await api.post(pods, pod("other", nodeName="n2", serviceAccountName="teller"))).obj
        await api.post(pods, pod("plain", nodeName="n1"))
        accounts = "/api/v1/namespaces/bank/serviceaccounts"
        assert (await api.post(f"{accounts}/teller/token", token_for(mine), token=ME)).status == 201
        unbound: Obj = {"spec": {}}
        for account, asked in (
            ("teller", token_for(other)),
            ("teller", unbound),
            ("default", token_for(mine)),
        ):
            answer = await api.post(f"{accounts}/{account}/token", asked, token=ME)
            assert answer.status in {400, 403}, answer.obj

    tell(story, tmp_path)


def test_a_node_does_not_touch_pods_that_are_not_its_own(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await register(api)
        pods = "/api/v1/namespaces/bank/pods"
        placed: dict[str, Obj] = {"theirs": {"nodeName": "n2"}, "waits": {}, "mine": {"nodeName": "n1"}}
        for name, spec in placed.items():
            assert (await api.post(pods, pod(name, **spec))).status == 201
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction"}
        for name in ("theirs", "waits"):
            attempts = [
                await api.delete(f"{pods}/{name}", token=ME),
                await api.patch(f"{pods}/{name}/status", {"status": {"phase": "Failed"}}, token=ME),
                await api.post(f"{pods}/{name}/eviction", {**eviction, "metadata": {"name": name}}, token=ME),
                await api.post(f"{pods}/{name}/binding", {"target": {"name": "n1"}}, token=ME),
                await api.patch(f"{pods}/{name}", {"spec": {"nodeName": "n1"}}, token=ME),
                await api.patch(f"{pods}/{name}/ephemeralcontainers", {}, token=ME),
            ]
            assert [answer.status for answer in attempts] == [403] * 6, [one.obj for one in attempts]
        labelled = {"metadata": {"labels": {"app": "bank"}}, "status": {"phase": "Running"}}
        answer = await api.patch(f"{pods}/mine/status", labelled, token=ME)
        assert answer.status == 403 or not answer.obj["metadata"].get("labels")
        annotated = {"metadata": {"annotations": MIRROR}}
        assert (await api.patch(f"{pods}/mine", annotated, token=ME)).status == 403
        assert (await api.delete(pods, token=ME)).status == 403

    tell(story, tmp_path)


async def distrusted(api: Api) -> Obj:
    """What the controllers, operators and the gateway say of a node."""
    await register(api)
    words = {
        "metadata": {
            "annotations": {"fathom.dev/trust-lost": '{"points": 90}', "fathom.dev/declare-lost": "jane"},
            "labels": {"fathom.dev/pool": "poor"},
        },
        "spec": {"taints": [{"key": "fathom.dev/quarantine", "effect": "NoSchedule"}]},
    }
    assert (await api.patch("/api/v1/nodes/n1", words)).status == 200
    conditions = [{"type": "fathom.dev/Quarantined", "status": "True"}, {"type": "Ready", "status": "True"}]
    said = await api.patch("/api/v1/nodes/n1/status", {"status": {"conditions": conditions}})
    assert said.status == 200, said.obj
    found: Obj = said.obj
    return found


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"annotations": {"fathom.dev/trust-lost": None}}},
        {"metadata": {"annotations": {"fathom.dev/trust-lost": '{"points": 0}'}}},
        {"metadata": {"annotations": {"fathom.dev/declare-lost": None}}},
        {"metadata": {"annotations": {"fathom.dev/unserved-until": "2999-01-01T00:00:00Z"}}},
        {"metadata": {"annotations": {"fathom.dev/anything-else": "x"}}},
        {"metadata": {"labels": {"fathom.dev/pool": "rich"}}},
        {"metadata": {"labels": {"fathom.dev/pool": None}}},
        {"metadata": {"labels": {"fathom.dev/node-class": "gold"}}},
        {"metadata": {"labels": {"sub.fathom.dev/x": "y"}}},
        {"metadata": {"labels": {"tier": "kept"}}},
    ],
    ids=str,
)
def test_a_node_does_not_change_what_others_say_of_it(change: Obj, tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await distrusted(api)
        kept = own("capacityclasses", "kept", {"nodeSelector": {"tier": "kept"}})
        assert (await api.post(f"{OWN}/capacityclasses", kept)).status == 201
        before = (await api.get("/api/v1/nodes/n1")).obj
        answer = await api.patch("/api/v1/nodes/n1", change, token=ME)
        assert answer.status == 403, answer.obj
        assert (await api.get("/api/v1/nodes/n1")).obj == before
        await api.patch("/api/v1/nodes/n1/status", change, token=ME)
        after = (await api.get("/api/v1/nodes/n1")).obj
        assert after["metadata"].get("labels") == before["metadata"].get("labels")
        assert after["metadata"]["annotations"] == before["metadata"]["annotations"]

    tell(story, tmp_path)


def test_a_node_does_not_lift_the_conditions_that_others_keep_on_it(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        said = await distrusted(api)
        ready = {"type": "Ready", "status": "True", "message": "fine"}
        forged = {"type": "fathom.dev/Lost", "status": "False"}
        for conditions in ([ready], [ready, forged], [{"type": "fathom.dev/Quarantined", "status": "False"}]):
            await api.patch("/api/v1/nodes/n1/status", {"status": {"conditions": conditions}}, token=ME)
            whole = (await api.get("/api/v1/nodes/n1")).obj
            await api.put(
                "/api/v1/nodes/n1/status", {**whole, "status": {"conditions": conditions}}, token=ME
            )
        found = (await api.get("/api/v1/nodes/n1")).obj["status"]["conditions"]
        ours = [one for one in found if one["type"].startswith("fathom.dev/")]
        assert ours == [one for one in said["status"]["conditions"] if one["type"].startswith("fathom.dev/")]

    tell(story, tmp_path)


@pytest.mark.parametrize(
    "meta",
    [
        {"labels": {"fathom.dev/pool": "rich"}},
        {"labels": {"tier": "kept"}},
        {"annotations": {"fathom.dev/trust-lost": "{}"}},
    ],
    ids=str,
)
def test_a_new_node_does_not_choose_its_pool(meta: Obj, tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        introduce(api, node("n3"))
        kept = own("capacityclasses", "kept", {"nodeSelector": {"tier": "kept"}})
        assert (await api.post(f"{OWN}/capacityclasses", kept)).status == 201
        made = await api.post("/api/v1/nodes", {"metadata": {"name": "n3", **meta}}, token="system:node:n3")
        assert made.status == 403, made.obj

    tell(story, tmp_path)


def test_a_node_says_of_itself_what_is_its_own(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await distrusted(api)
        notes = {"fathom.dev/agent-certificate": "x", "fathom.dev/agent-notice": "y", "example.com/z": "z"}
        labels = {"fathom.dev/driver": "simulated", "topology.kubernetes.io/zone": "a", "rack": "7"}
        meta = {"metadata": {"annotations": notes, "labels": labels}}
        assert (await api.patch("/api/v1/nodes/n1", meta, token=ME)).status == 200
        ready = {"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Full"}]}}
        said = await api.patch("/api/v1/nodes/n1/status", ready, kind="strategic", token=ME)
        assert said.status == 200, said.obj

    tell(story, tmp_path)


@pytest.mark.parametrize("gone", [{}, {"metadata": {"annotations": None}}], ids=["mark", "all"])
def test_a_mirror_pod_does_not_become_another_by_its_status(gone: Obj, tmp_path: Path) -> None:
    """Without its mark it would open the account of its namespace, and be counted as a user's pod."""

    async def story(api: Api) -> None:
        uid = await register(api)
        pods = "/api/v1/namespaces/bank/pods"
        made = (await api.post(pods, mirror(uid), token=ME)).obj
        change = gone or {"metadata": {"annotations": dict.fromkeys(MIRROR)}}
        for who in (ME, "admin-token"):
            for path in (f"{pods}/static-n1/status", f"{pods}/static-n1"):
                await api.patch(path, change, token=who)
        kept = (await api.get(f"{pods}/static-n1")).obj["metadata"]["annotations"]
        assert {name: kept.get(name) for name in MIRROR} == MIRROR
        path = "/api/v1/namespaces/bank/serviceaccounts/default/token"
        stolen = await api.post(path, token_for(made), token=ME)
        assert stolen.status == 403, stolen.obj

    tell(story, tmp_path)


def test_a_users_pod_does_not_become_a_mirror_pod(tmp_path: Path) -> None:
    """No drain ends mirror pods."""

    async def story(api: Api) -> None:
        await register(api)
        pods = "/api/v1/namespaces/bank/pods"
        made = (await api.post(pods, pod("mine", nodeName="n1"))).obj["metadata"]
        for path in (f"{pods}/mine/status", f"{pods}/mine"):
            for who in (ME, "admin-token"):
                await api.patch(path, {"metadata": {"annotations": MIRROR}}, token=who)
        after = (await api.get(f"{pods}/mine")).obj["metadata"]
        assert after["annotations"] == made["annotations"]

    tell(story, tmp_path)


def test_a_node_does_not_change_whose_a_pod_is_by_its_status(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await register(api)
        pods = "/api/v1/namespaces/bank/pods"
        made = (await api.post(pods, pod("mine", nodeName="n1", annotations={"a": "b"}))).obj
        owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": made["metadata"]["uid"]}
        for change in (
            {"ownerReferences": [owner]}, {"finalizers": ["fathom.dev/held"]}, {"labels": {"a": "b"}},
            {"annotations": {"fathom.dev/capacity-class": "gold"}},
        ):  # fmt: skip
            await api.patch(f"{pods}/mine/status", {"metadata": change}, token=ME)
        after = (await api.get(f"{pods}/mine")).obj["metadata"]
        names = ("ownerReferences", "finalizers", "labels", "annotations")
        assert {name: after.get(name) for name in names} == {
            name: made["metadata"].get(name) for name in names
        }

    tell(story, tmp_path)


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("?fieldSelector=spec.nodeName=n1", 200),
        ("?fieldSelector=spec.nodeName==n1", 200),
        ("", 403),
        ("?fieldSelector=spec.nodeName=n2", 403),
        ("?fieldSelector=spec.nodeName!=n1", 403),
        ("?fieldSelector=spec.nodeName=n1,spec.nodeName=n2", 403),
        ("?fieldSelector=spec.nodeName=n2&fieldSelector=spec.nodeName=n1", 403),
    ],
)
def test_a_node_lists_the_certificate_requests_of_its_own_pods(
    query: str, status: int, tmp_path: Path
) -> None:
    async def story(api: Api) -> None:
        introduce(api, node("n1"))
        listed = await api.get(f"{CERTIFICATE_REQUESTS}{query}", token=ME)
        assert listed.status == status, listed.obj

    tell(story, tmp_path)
