"""What kubectl sends in protobuf makes the same objects as what it sends in JSON.

Commands that make objects out of flags use Go's typed clients, which send protobuf; `create -f` sends JSON.
So each object is made twice: out of flags, and out of the file that the same flags print with
`--dry-run=client`.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.clients.kubectl import Kubectl
from tests.clients.objects import pod
from tests.deep import first_few

pytestmark = pytest.mark.kubectl

FROM_FLAGS = [
    "configmap made --from-literal=a=1 --from-literal=b=",
    "secret generic made --from-literal=a=1 --from-literal=empty=",
    "secret docker-registry made --docker-server=x --docker-username=u --docker-password=p",
    "serviceaccount made",
    "role made --verb=get,list --resource=pods,deployments.apps --resource-name=x",
    "rolebinding made --role=reader --user=jane --group=dev --serviceaccount=default:robot",
    "quota made --hard=cpu=1500m,memory=1Gi,pods=0 --scopes=NotTerminating",
    "pdb made --selector=app=web --min-available=50%",
    "pdb made --selector=app=web --max-unavailable=0",
    "job made --image=busybox -- sh -c 'echo hi'",
    "cronjob made --image=busybox --schedule='*/5 * * * *' --restart=Never",
    "deployment made --image=nginx --image=busybox --replicas=0",
    "deployment made --image=nginx --port=8080",
    "service clusterip made --clusterip=None --tcp=80:8080",
    "service externalname made --external-name=example.com",
    "ingress made --rule=a.example/path*=svc:http,tls=cert --class=nginx --annotation=a=b",
    "ingress made --default-backend=svc:80",
]
FROM_FLAGS_IN_NO_NAMESPACE = [
    "namespace NAME",
    "clusterrole NAME --verb=get --non-resource-url=/healthz",
    "clusterrole NAME --aggregation-rule=app=web",
    "clusterrolebinding NAME --clusterrole=reader --group=dev",
    "priorityclass NAME --value=-10 --description=x",
    "priorityclass NAME --value=0 --global-default=false --preemption-policy=Never",
]


def made_both_ways(kubectl: Kubectl, flags: str, name: str) -> tuple[Any, Any]:
    """What the server keeps: of protobuf, and of JSON."""
    kind, _, rest = flags.partition(" ")
    file = kubectl.ok(f"create {kind} --dry-run=client -o json {rest}")
    kubectl.ok(f"create {kind} {rest}")
    of_protobuf = taken(kubectl, kind, name)
    kubectl.ok("create -f -", stdin=file)
    return of_protobuf, taken(kubectl, kind, name)


def taken(kubectl: Kubectl, kind: str, name: str) -> Any:
    """An object as it is kept, without what is different each time; deleted afterwards."""
    obj = kubectl.json(f"get {kind} {name}")
    kubectl.ok(f"delete {kind} {name}")
    for given in ("resourceVersion", "creationTimestamp"):
        obj["metadata"].pop(given)
    return json.loads(json.dumps(obj).replace(obj["metadata"]["uid"], "UID"))


def test_kubectl_sends_protobuf_where_these_tests_think_so(kubectl: Kubectl) -> None:
    done = kubectl.run("create configmap c --dry-run=server -v=9")
    assert "Content-Type: application/vnd.kubernetes.protobuf" in done.err, "this kubectl is older than 1.32"


@pytest.mark.parametrize("flags", first_few(FROM_FLAGS, 8))
def test_flags_make_what_a_file_makes(kubectl: Kubectl, flags: str) -> None:
    of_protobuf, of_json = made_both_ways(kubectl, flags, "made")
    assert of_protobuf == of_json


@pytest.mark.parametrize("flags", FROM_FLAGS_IN_NO_NAMESPACE)
def test_flags_make_what_a_file_makes_in_no_namespace(cluster: Kubectl, namespace: str, flags: str) -> None:
    name = f"{namespace}-made"
    of_protobuf, of_json = made_both_ways(cluster, flags.replace("NAME", name), name)
    assert of_protobuf == of_json


def test_reviews(kubectl: Kubectl, namespace: str) -> None:
    kubectl.ok("create role reader --verb=get --resource=pods")
    kubectl.ok("create rolebinding reader --role=reader --user=jane")
    assert kubectl.ok("auth can-i get pods --as=jane") == "yes\n"
    denied = kubectl.run("auth can-i delete pods --as=jane")
    assert (denied.code, denied.out) == (1, "no\n")
    listed = kubectl.ok("auth can-i --list --as=jane")
    assert [line.split() for line in listed.splitlines() if line.startswith("pods ")] == [
        ["pods", "[]", "[]", "[get]"]
    ]
    whoami = kubectl.json("auth whoami --as=jane --as-group=dev")
    assert whoami["status"]["userInfo"] == {"username": "jane", "groups": ["dev", "system:authenticated"]}


def test_a_token_is_bound_and_lasts_as_long_as_asked_for(kubectl: Kubectl, namespace: str) -> None:
    kubectl.ok("create serviceaccount robot")
    kubectl.create({**pod("p"), "spec": {**pod("p")["spec"], "serviceAccountName": "robot"}})
    command = (
        "create token robot --duration=20m --audience=there --bound-object-kind=Pod --bound-object-name=p"
    )
    token = kubectl.ok(command).strip()
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert (claims["aud"], claims["exp"] - claims["iat"]) == (["there"], 1200)
    assert claims["kubernetes.io"]["pod"]["name"] == "p"


@pytest.mark.parametrize("how", ["", "--disable-eviction"])
def test_a_node_is_drained(cluster: Kubectl, kubectl: Kubectl, node_name: str, how: str) -> None:
    """By evictions, or by deletions with options: both are protobuf."""
    kubectl.create(pod("p", node=node_name))
    done = cluster.run(f"drain {node_name} --force --grace-period=0 {how}")
    assert (done.code, done.out.splitlines()[-1]) == (0, f"node/{node_name} drained")
    assert kubectl.run("get pod p").code == 1
    assert kubectl.json(f"get node {node_name}")["spec"]["unschedulable"] is True


def test_a_certificate_request_is_approved(cluster: Kubectl, namespace: str) -> None:
    spec = {"request": certificate_request(), "signerName": "example.com/signer", "usages": ["client auth"]}
    request = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "spec": spec}
    cluster.create({**request, "metadata": {"name": namespace}})
    cluster.ok(f"certificate approve {namespace}")
    kept = cluster.json(f"get csr {namespace}")
    assert [(one["type"], one["status"]) for one in kept["status"]["conditions"]] == [("Approved", "True")]
    assert (kept["spec"]["request"], kept["spec"]["usages"]) == (spec["request"], ["client auth"])
    cluster.ok(f"delete csr {namespace}")


def certificate_request() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "jane")])
    made = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()
