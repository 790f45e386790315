"""Who may do what, asked and enforced: `auth`, impersonation, tokens, certificates."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
import yaml
from tests.clients.kubectl import Kubectl, manifest
from tests.clients.objects import Obj, config_map, pod

pytestmark = pytest.mark.kubectl

RBAC = "rbac.authorization.k8s.io"


@pytest.fixture
def reader(kubectl: Kubectl) -> Kubectl:
    """jane may read pods in the namespace, and nothing else."""
    kubectl.ok("create role reader --verb=get,list,watch --resource=pods")
    kubectl.ok("create rolebinding jane --role=reader --user=jane")
    return kubectl


def test_whoami(cluster: Kubectl) -> None:
    assert cluster.rows("auth whoami")[:2] == [
        {"ATTRIBUTE": "Username", "VALUE": "fathom-admin"},
        {"ATTRIBUTE": "Groups", "VALUE": "[system:masters system:authenticated]"},
    ]
    shown = cluster.json("auth whoami --as=jane --as-group=devs")["status"]["userInfo"]
    assert (shown["username"], shown["groups"]) == ("jane", ["devs", "system:authenticated"])


def test_can_i(reader: Kubectl, namespace: str) -> None:
    assert reader.ok("auth can-i create pods") == "yes\n"
    assert reader.ok("auth can-i get pods --as=jane") == "yes\n"
    done = reader.run("auth can-i delete pods --as=jane")
    assert (done.code, done.out, done.err) == (1, "no\n", "")
    assert reader.run("auth can-i get pods --as=jane -n other").out == "no\n"
    assert reader.run("auth can-i get pods --subresource=log --as=jane").out == "no\n"
    assert reader.run("auth can-i get /healthz --as=jane").out == "yes\n"
    assert reader.run("auth can-i '*' '*' -q").code == 0
    done = reader.run("auth can-i get nodes")
    assert done.out == "yes\n"
    assert done.err == "Warning: resource 'nodes' is not namespace scoped\n\n"


def test_what_one_may_do_as_a_list(reader: Kubectl) -> None:
    listed = reader.ok("auth can-i --list --as=jane").splitlines()
    assert ["pods", "[]", "[]", "[get", "list", "watch]"] in [line.split() for line in listed]
    assert ["*.*", "[]", "[]", "[*]"] in [
        line.split() for line in reader.ok("auth can-i --list").splitlines()
    ]


def test_what_one_may_not_is_forbidden(reader: Kubectl, namespace: str) -> None:
    reader.create(pod("p"), config_map("c"))
    assert reader.ok("get pods -o name --as=jane") == "pod/p\n"
    where = f'in API group "" in the namespace "{namespace}"'
    for command, what in (
        ("get cm", f'configmaps is forbidden: User "jane" cannot list resource "configmaps" {where}'),
        ("get cm c", f'configmaps "c" is forbidden: User "jane" cannot get resource "configmaps" {where}'),
        ("delete pod p", f'pods "p" is forbidden: User "jane" cannot delete resource "pods" {where}'),
        ("get nodes",
         'nodes is forbidden: User "jane" cannot list resource "nodes" in API group "" at the cluster scope'),
        ("get --raw /metrics", 'forbidden: User "jane" cannot get path "/metrics"'),
    ):  # fmt: skip
        assert reader.fails(f"{command} --as=jane") == f"Error from server (Forbidden): {what}"


def test_nobody_hands_out_more_than_they_hold(reader: Kubectl) -> None:
    reader.ok("create role granter --verb=create --resource=roles,rolebindings")
    reader.ok("create rolebinding granter --role=granter --user=jane")
    said = reader.fails("create role more --verb=delete --resource=pods --as=jane")
    assert said.startswith(
        f'Error from server (Forbidden): roles.{RBAC} "more" is forbidden: user "jane" '
        '(groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'
        '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}'
    )


def test_a_labelled_role_adds_to_a_bootstrap_role(kubectl: Kubectl, cluster: Kubectl, namespace: str) -> None:
    kubectl.ok("create rolebinding joe --clusterrole=view --user=joe")
    assert kubectl.run("auth can-i get leases --as=joe").out == "no\n"
    cluster.ok(f"create clusterrole {namespace} --verb=get --resource=leases.coordination.k8s.io")
    cluster.ok(f"label clusterrole {namespace} {RBAC}/aggregate-to-view=true")
    assert kubectl.run("auth can-i get leases --as=joe").out == "yes\n"
    cluster.ok(f"delete clusterrole {namespace}")
    assert kubectl.run("auth can-i get leases --as=joe").out == "no\n"


def test_reconcile_roles_from_a_file(kubectl: Kubectl) -> None:
    def role(*verbs: str) -> Obj:
        rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": list(verbs)}]
        meta = {"name": "r", "namespace": kubectl.namespace}
        return {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": meta, "rules": rules}

    def reconciled(obj: Obj, *flags: str) -> Obj:
        done = kubectl.run("auth reconcile -f -", *flags, stdin=manifest(obj))
        assert (done.code, done.out.splitlines()[0]) == (0, f"role.{RBAC}/r reconciled")
        found: Obj = kubectl.json("get role r")
        return found

    assert reconciled(role("get"))["rules"] == role("get")["rules"]
    assert len(reconciled(role("list"))["rules"]) == 2
    assert reconciled(role("list"), "--remove-extra-permissions")["rules"] == role("list")["rules"]


def test_a_service_account_with_its_token(kubectl: Kubectl, namespace: str, tmp_path: Path) -> None:
    kubectl.ok("create sa robot")
    kubectl.ok(f"create rolebinding robot --clusterrole=view --serviceaccount={namespace}:robot")
    token = kubectl.ok("create token robot").strip()
    config = yaml.safe_load(kubectl.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    robot = Kubectl(kubectl.binary, file, kubectl.home, namespace)
    assert robot.json("auth whoami")["status"]["userInfo"]["username"] == (
        f"system:serviceaccount:{namespace}:robot"
    )
    assert robot.ok("get cm --ignore-not-found -o name") == ""
    assert robot.fails("get secrets").startswith("Error from server (Forbidden): secrets is forbidden: User")
    kubectl.ok("delete sa robot")
    assert robot.fails("get cm") == "error: You must be logged in to the server (Unauthorized)"


def test_a_wrong_token(kubectl: Kubectl, tmp_path: Path) -> None:
    config = yaml.safe_load(kubectl.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": "nonsense"}
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    nobody = Kubectl(kubectl.binary, file, kubectl.home, kubectl.namespace)
    assert nobody.fails("get cm") == "error: You must be logged in to the server (Unauthorized)"


def test_certificate_requests_are_approved_and_denied(cluster: Kubectl, namespace: str) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "jane")])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    asked = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    pem = asked.public_bytes(serialization.Encoding.PEM)
    spec = {
        "request": base64.b64encode(pem).decode(),
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
    }
    for name in ("yes", "no"):
        meta = {"name": f"{namespace}-{name}"}
        made = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": meta}
        cluster.create({**made, "spec": spec})
    csr = "certificatesigningrequest.certificates.k8s.io"
    assert cluster.ok(f"certificate approve {namespace}-yes") == f"{csr}/{namespace}-yes approved\n"
    assert cluster.ok(f"certificate deny {namespace}-no") == f"{csr}/{namespace}-no denied\n"
    shown = {row["NAME"]: row for row in cluster.rows("get csr")}
    assert shown[f"{namespace}-yes"]["CONDITION"] == "Approved"
    assert shown[f"{namespace}-no"]["CONDITION"] == "Denied"
    assert (
        shown[f"{namespace}-no"]["REQUESTOR"] == cluster.json("auth whoami")["status"]["userInfo"]["username"]
    )
    cluster.ok(f"delete csr {namespace}-yes {namespace}-no")
