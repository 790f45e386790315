"""What an extension API server reads to know whose certificates to trust: a config map of kube-system."""

from __future__ import annotations

import json
from pathlib import Path

from cryptography import x509
from tests.clients.kubectl import Kubectl
from tests.clients.running import Server, running

PLACE = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
ROLE = "extension-apiserver-authentication-reader"


def test_it_has_the_authority_of_clients_and_how_a_front_proxy_says_who_asks(server: Server) -> None:
    found = server.request("GET", PLACE)["data"]
    assert found["client-ca-file"] == (server.data / "pki" / "ca.crt").read_text()
    headers = {name: json.loads(text) for name, text in found.items() if not name.endswith("ca-file")}
    assert headers == {
        "requestheader-allowed-names": ["front-proxy-client"],
        "requestheader-extra-headers-prefix": ["X-Remote-Extra-"],
        "requestheader-group-headers": ["X-Remote-Group"],
        "requestheader-uid-headers": ["X-Remote-Uid"],
        "requestheader-username-headers": ["X-Remote-User"],
    }


def test_no_client_of_the_cluster_can_pose_as_the_front_proxy(server: Server) -> None:
    """Its authority is another one: else every certificate of ours could name any user to an extension."""
    found = server.request("GET", PLACE)["data"]
    proxy = x509.load_pem_x509_certificate(found["requestheader-client-ca-file"].encode())
    clients = x509.load_pem_x509_certificate(found["client-ca-file"].encode())
    assert proxy.public_key() != clients.public_key()
    assert proxy.subject != clients.subject


def test_whoever_is_bound_to_the_reader_role_may_read_it_and_nothing_else(
    server: Server, namespace: str, cluster: Kubectl
) -> None:
    account = f"system:serviceaccount:{namespace}:extension"
    binding = {
        "metadata": {"name": f"reads-{namespace}", "namespace": "kube-system"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ROLE},
        "subjects": [{"kind": "ServiceAccount", "name": "extension", "namespace": namespace}],
    }
    place = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings"
    server.request("POST", place, binding)
    asking = f"-n kube-system --as {account}"
    found = cluster.json(f"get configmap extension-apiserver-authentication {asking}")
    assert "client-ca-file" in found["data"]
    chosen = "--field-selector=metadata.name=extension-apiserver-authentication"
    assert len(cluster.json(f"get configmaps {chosen} {asking}")["items"]) == 1
    assert "forbidden" in cluster.fails(f"get configmaps {asking}").lower()


def test_it_is_put_right_at_the_next_start(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        good = server.request("GET", PLACE)["data"]
        server.patch(PLACE, {"data": {"client-ca-file": "nonsense", "requestheader-allowed-names": "[]"}})
    with running(tmp_path) as server:
        assert server.request("GET", PLACE)["data"] == good
        server.request("DELETE", PLACE)
    with running(tmp_path) as server:
        assert server.request("GET", PLACE)["data"] == good
