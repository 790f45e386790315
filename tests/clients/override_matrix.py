"""Who may do what to an override, or to a proposal of repair: people with real credentials, and the table of
who succeeds with what.

As in tests/security/test_override_matrix.py, the table is written by hand: it must not follow from the table
that the server follows. (Nodes and fathom's own accounts do not use these clients: that table has them.)
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from tests.clients.kubectl import As, Kubectl
from tests.clients.objects import Obj
from tests.clients.running import Server, tls_of
from tests.clients.test_kubectl_overrides import override

DEEDS = ("create", "drain", "approve", "extend", "end", "status", "finalizer", "proposal")
# Columns as in DEEDS. y: allowed. The author has written the override that is tried on; it needs approval.
#                 create drain approve extend end status finalizer proposal
CELLS: dict[str, str] = {
    "viewer":        "  .     .      .      .     .    .       .        .",
    "editor":        "  .     .      .      .     .    .       .        .",
    "admin":         "  y     .      y      y     y    .       .        y",
    "author":        "  y     .      .      y     y    .       .        y",
    "cluster-admin": "  y     y      y      y     y    y       y        y",
    "bot":           "  y     .      .      y     y    .       .        .",
}  # fmt: skip
ROLES = {"viewer": "view", "editor": "edit", "admin": "admin", "author": "admin"}
OWN = "/apis/fathom.dev/v1alpha1/namespaces"
SYSTEM = "fathom-system"
MERGE = "application/merge-patch+json"
APPROVED = {"approved": True}


def cells(who: str, *lost: str) -> dict[str, str]:
    """The row of the table, without the deeds that stay refused to whoever acts in this name."""
    row = zip(DEEDS, CELLS[who].split(), strict=True)
    return {deed: "." if deed in lost else cell for deed, cell in row}


def gathered(kubectl: Kubectl, person: As) -> dict[str, Kubectl]:
    """By the names of the table. `bot` is a service account that administers the namespace."""
    people = {"cluster-admin": kubectl}
    for who, role in ROLES.items():
        people[who] = person(who)
        kubectl.ok(f"create rolebinding {who} --clusterrole={role} --user={who}")
    kubectl.ok("create serviceaccount bot")
    kubectl.ok(f"create rolebinding bot --clusterrole=admin --serviceaccount={kubectl.namespace}:bot")
    people["bot"] = person("somebody")
    config = yaml.safe_load(people["bot"].kubeconfig.read_text())
    config["users"][0]["user"] = {"token": kubectl.ok("create token bot").strip()}
    people["bot"].kubeconfig.write_text(yaml.safe_dump(config))
    return people


def waiting(name: str) -> Obj:
    """An override that needs approval, and has nothing to do with the others."""
    made = override(name, trafficWeights={"eu": 1})
    made["spec"]["target"] = f"workload/{name}"
    return made


def drain(name: str) -> Obj:
    made = override(name, drain=True)
    made["spec"]["target"] = "node/nowhere"
    return made


def propose(server: Server, namespace: str, *names: str) -> None:
    """As repair does: with the credentials of the controllers, which lead."""
    client = RawClient(server.url, server.data / "credentials" / "controllers")
    spec = {
        "holderIdentity": "repair",
        "leaseDurationSeconds": 15,
        "renewTime": "2026-01-01T00:00:00.000000Z",
    }
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases"
    client.send("DELETE", f"{leases}/controllers")
    code, lease = client.send("POST", leases, {"metadata": {"name": "controllers"}, "spec": spec})
    assert code == 201, lease
    fence = f"{SYSTEM}/controllers/{lease['metadata']['annotations']['fathom.dev/epoch']}"
    for name in names:
        subject = {"kind": "Pod", "name": name, "namespace": namespace}
        proposal = {
            "apiVersion": "fathom.dev/v1alpha1",
            "kind": "RepairProposal",
            "metadata": {"name": name},
            "spec": {"subject": subject, "problem": "it is stuck", "action": "Delete"},
        }
        code, made = client.send(
            "POST", f"{OWN}/{namespace}/repairproposals", proposal, **{"fathom-fence": fence}
        )
        assert code == 201, made


class RawClient:
    """Requests over TLS, with the token or the certificate of a kubeconfig."""

    def __init__(self, url: str, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        token = config["users"][0]["user"].get("token")
        self._host = urlsplit(url).netloc
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        authority = config["clusters"][0]["cluster"]["certificate-authority-data"]
        known = base64.b64decode(authority).decode()
        self._tls = ssl.create_default_context(cadata=known) if token else tls_of(kubeconfig)

    def send(
        self, method: str, path: str, body: Obj | None = None, media: str = "application/json", **headers: str
    ) -> tuple[int, Obj]:
        connection = http.client.HTTPSConnection(self._host, context=self._tls, timeout=20)
        try:
            sent = None if body is None else json.dumps(body)
            said = {"content-type": media, **self._headers, **headers}
            connection.request(method, path, sent, said)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()
