"""A node sees the certificate requests of its own pods, and of no others."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from tests.api.harness import Api, tell

from fathom.api.auth.static_tokens import digest
from fathom.model.user import User

N1 = "node-token"
ALL = "/apis/certificates.k8s.io/v1/podcertificaterequests"
MINE = "/apis/certificates.k8s.io/v1/namespaces/default/podcertificaterequests"


def request(name: str, node: str) -> dict[str, Any]:
    spec = {
        "signerName": "example.com/x",
        "podName": "p",
        "podUID": "1",
        "serviceAccountName": "default",
        "serviceAccountUID": "2",
        "nodeName": node,
        "nodeUID": "3",
        "pkixPublicKey": base64.b64encode(b"key").decode(),
        "proofOfPossession": base64.b64encode(b"proof").decode(),
    }
    return {"metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("path", [ALL, MINE])
def test_a_node_lists_and_watches_its_own(tmp_path: Path, path: str) -> None:
    async def story(api: Api) -> None:
        nodes = {digest(N1): User("system:node:n1", ("system:nodes", "system:authenticated"))}
        from tests.api.harness import _tokens

        api.parts.authenticator.replace_tokens({**api.parts.own_tokens, **_tokens(), **nodes})
        for name, node in (("a", "n1"), ("b", "n2")):
            made = await api.post(MINE, request(name, node))
            assert made.status == 201, made.obj
        listed = await api.get(f"{path}?fieldSelector=spec.nodeName%3Dn1", token=N1)
        assert listed.status == 200, listed.obj
        assert [one["metadata"]["name"] for one in listed.obj["items"]] == ["a"]
        both = await api.get(f"{path}?fieldSelector=spec.nodeName%3Dn1,spec.podName%3Dp", token=N1)
        assert both.status == 200
        watch = await api.watch(f"{path}?fieldSelector=spec.nodeName%3D%3Dn1", token=N1)
        assert await watch.take(1) == [("ADDED", "a")]
        watch.close()
        assert (await api.get(f"{MINE}/a", token=N1)).status == 200
        refused = (
            path,
            f"{path}?fieldSelector=spec.nodeName%3Dn2",
            f"{path}?fieldSelector=spec.nodeName%21%3Dn1",
            f"{path}?fieldSelector=spec.podName%3Dp",
            f"{path}?fieldSelector=spec.nodeName%3Dn2,spec.nodeName%3Dn1",
            f"{path}?fieldSelector=spec.podName%21%3Dx%5C,spec.nodeName%3Dn1",
            f"{MINE}/b",
            f"{MINE}/none",
        )
        for one in refused:
            answer = await api.get(one, token=N1)
            assert answer.status == 403, one
        for method in ("PUT", "PATCH", "DELETE"):
            assert (await api.call(method, f"{MINE}/a", request("a", "n1"), token=N1)).status == 403

    tell(story, tmp_path)
