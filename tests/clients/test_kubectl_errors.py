"""What goes wrong, in the words that people look up."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.clients.kubectl import Kubectl, manifest
from tests.clients.objects import Obj, config_map, deployment, pod
from tests.clients.running import Server

pytestmark = pytest.mark.kubectl

SERVER = "Error from server"


def test_what_is_not_there(kubectl: Kubectl) -> None:
    for command, said in (
        ("get pod none", f'{SERVER} (NotFound): pods "none" not found'),
        ("get deploy none", f'{SERVER} (NotFound): deployments.apps "none" not found'),
        ("get pod none -n no-such", f'{SERVER} (NotFound): namespaces "no-such" not found'),
        ("get nosuch", 'error: the server doesn\'t have a resource type "nosuch"'),
        ("get nosuch.example.com x", 'error: the server doesn\'t have a resource type "nosuch"'),
        ("scale deploy none --replicas=1",
         'error: no objects passed to scale deployments.apps "none" not found'),
    ):  # fmt: skip
        assert kubectl.fails(command) == said


def test_a_namespace_that_is_not_there(kubectl: Kubectl) -> None:
    said = kubectl.within("no-such").fails("create -f -", stdin=manifest(config_map("c")))
    assert said == f'{SERVER} (NotFound): error when creating "STDIN": namespaces "no-such" not found'
    done = kubectl.within("no-such").run("get pods")
    assert (done.code, done.err) == (0, "No resources found in no-such namespace.\n")


@pytest.mark.parametrize(
    ("selector", "said"),
    [
        ("-l 'a in b'", "unable to parse requirement"),
        ("--field-selector nosuch=1",
         'Unable to find "/v1, Resource=pods" that match label selector "", field selector "nosuch=1": '
         "field label not supported: nosuch"),
        ("--field-selector spec.nodeName>1", "invalid selector"),
    ],
)  # fmt: skip
def test_selectors_that_cannot_be_read(kubectl: Kubectl, selector: str, said: str) -> None:
    assert said in kubectl.fails(f"get pods {selector}")


def test_field_selectors_of_other_kinds(kubectl: Kubectl) -> None:
    said = kubectl.fails("get cm --field-selector nosuch=1")
    assert said == (
        f'{SERVER} (BadRequest): Unable to find "/v1, Resource=configmaps" that match label selector "", '
        'field selector "nosuch=1": "nosuch" is not a known field selector: only "metadata.name", '
        '"metadata.namespace"'
    )


def test_files_that_cannot_be_read(kubectl: Kubectl, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("a: [unclosed")
    said = kubectl.fails(f"apply -f {bad}")
    assert said.startswith(f"error: error parsing {bad}: error converting YAML to JSON")
    bad.write_text("just: data\n")
    said = kubectl.fails(f"create -f {bad}")
    assert "error validating data: [apiVersion not set, kind not set]" in said


@pytest.mark.parametrize(("kind", "version"), [("Nosuch", "v1"), ("ConfigMap", "example.com/v1")])
def test_kinds_that_nobody_serves(kubectl: Kubectl, kind: str, version: str) -> None:
    unknown = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}}
    assert kubectl.fails("create -f -", stdin=manifest(unknown)) == (
        'error: resource mapping not found for name: "x" namespace: "" from "STDIN": '
        f'no matches for kind "{kind}" in version "{version}"\nensure CRDs are installed first'
    )


def invalid(obj: Obj, **spec: object) -> str:
    return manifest({**obj, "spec": {**obj["spec"], **spec}})


def test_objects_that_are_invalid(kubectl: Kubectl) -> None:
    said = kubectl.fails("create -f -", stdin=invalid(pod("p"), restartPolicy="Sometimes"))
    assert said == (
        'The Pod "p" is invalid: spec.restartPolicy: Unsupported value: "Sometimes": supported values: '
        '"Always", "OnFailure", "Never"'
    )
    said = kubectl.fails("create -f -", stdin=invalid(pod("p"), containers=[]))
    assert said == 'The Pod "p" is invalid: spec.containers: Required value'
    twice = [{"name": "a", "image": "x"}, {"name": "a"}]
    said = kubectl.fails("create -f -", stdin=invalid(pod("p"), containers=twice))
    assert said == (
        'The Pod "p" is invalid: \n'
        "* spec.containers[1].image: Required value\n"
        '* spec.containers[1].name: Duplicate value: "a"'
    )
    said = kubectl.fails("create -f -", stdin=invalid(deployment("d"), replicas="many"))
    assert said == (
        f'{SERVER} (BadRequest): error when creating "STDIN": '
        'Deployment in version "v1" cannot be handled as a Deployment: '
        "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"
    )


def test_a_quota_that_is_used_up(kubectl: Kubectl) -> None:
    kubectl.ok("create quota q --hard=pods=1")
    kubectl.create(pod("one"))
    said = kubectl.fails("create -f -", stdin=manifest(pod("two")))
    assert said == (
        f'{SERVER} (Forbidden): error when creating "STDIN": pods "two" is forbidden: exceeded quota: q, '
        "requested: pods=1, used: pods=1, limited: pods=1"
    )


@pytest.mark.parametrize("command", ["exec p -- true", "attach p", "port-forward p 1:1"])
def test_a_pod_whose_node_is_gone_cannot_be_connected_to(
    kubectl: Kubectl, server: Server, command: str
) -> None:
    kubectl.create(pod("p", node="somewhere"))
    path = f"/api/v1/namespaces/{kubectl.namespace}/pods/p"
    name = kubectl.ok("get pod p -o jsonpath={.spec.containers[0].name}")
    running = {"name": name, "image": "x", "imageID": "", "ready": True, "restartCount": 0,
               "state": {"running": {}}}  # fmt: skip
    server.patch(f"{path}/status", {"status": {"phase": "Running"}})
    assert "is not running" in kubectl.fails(command)
    server.patch(f"{path}/status", {"status": {"phase": "Running", "containerStatuses": [running]}})
    assert "node somewhere of pod p no longer exists" in kubectl.fails(command)


def test_a_server_that_is_not_there(kubectl: Kubectl) -> None:
    said = kubectl.fails("get pods --server=https://127.0.0.1:1 --request-timeout=2s")
    assert said.endswith(
        "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?"
    )


def test_a_server_that_cannot_be_trusted(kubectl: Kubectl, server: Server, tmp_path: Path) -> None:
    """Another authority's certificate: kubectl must not talk to us."""
    text = kubectl.kubeconfig.read_text()
    line = next(line for line in text.splitlines() if "certificate-authority-data" in line)
    file = tmp_path / "kubeconfig"
    file.write_text(text.replace(line, ""))
    said = Kubectl(kubectl.binary, file, tmp_path).fails("get pods")
    assert said.endswith("tls: failed to verify certificate: x509: certificate signed by unknown authority")
