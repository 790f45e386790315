"""`kubectl apply` and `diff`: the declared state, merged with what is there and what was declared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from tests.clients.kubectl import Kubectl, manifest
from tests.clients.objects import Obj, config_map, deployment, pod, service

pytestmark = pytest.mark.kubectl


def data(kubectl: Kubectl, name: str) -> Obj:
    found: Obj = kubectl.json(f"get cm {name}").get("data", {})
    return found


def test_created_configured_unchanged(kubectl: Kubectl) -> None:
    assert kubectl.apply(config_map("c", a="1")) == "configmap/c created\n"
    assert kubectl.apply(config_map("c", a="1")) == "configmap/c unchanged\n"
    before = kubectl.value("get cm c", ".metadata.resourceVersion")
    assert kubectl.apply(config_map("c", a="1")) == "configmap/c unchanged\n"
    assert kubectl.value("get cm c", ".metadata.resourceVersion") == before
    assert kubectl.apply(config_map("c", a="2")) == "configmap/c configured\n"
    assert data(kubectl, "c") == {"a": "2"}


def test_what_is_no_longer_declared_goes_and_what_others_wrote_stays(kubectl: Kubectl) -> None:
    kubectl.apply(config_map("c", mine="1", gone="1", labels={"l": "1", "m": "1"}))
    kubectl.ok("patch cm c --type=merge -p", '{"data":{"theirs":"1"},"metadata":{"labels":{"t":"1"}}}')
    assert kubectl.apply(config_map("c", mine="1", labels={"l": "1"})) == "configmap/c configured\n"
    assert data(kubectl, "c") == {"mine": "1", "theirs": "1"}
    assert kubectl.json("get cm c")["metadata"]["labels"] == {"l": "1", "t": "1"}


def test_containers_are_merged_by_name(kubectl: Kubectl) -> None:
    kubectl.apply(deployment("web"))
    sidecar = {"name": "side", "image": "s:1"}
    patch = {"spec": {"template": {"spec": {"containers": [sidecar]}}}}
    kubectl.ok("patch deploy web -p", json.dumps(patch))
    assert kubectl.apply(deployment("web", image="nginx:1.28")) == "deployment.apps/web configured\n"
    containers = kubectl.json("get deploy web")["spec"]["template"]["spec"]["containers"]
    assert {container["name"]: container["image"] for container in containers} == {
        "side": "s:1",
        "main": "nginx:1.28",
    }


def test_last_applied_is_kept_in_an_annotation(kubectl: Kubectl, namespace: str) -> None:
    kubectl.apply(config_map("c", a="1"))
    declared = yaml.safe_load(kubectl.ok("apply view-last-applied cm c"))
    assert declared["data"] == {"a": "1"}
    assert declared["metadata"] == {"annotations": {}, "name": "c", "namespace": namespace}
    kubectl.ok("apply set-last-applied -f -", stdin=manifest(config_map("c", a="1", b="2")))
    assert yaml.safe_load(kubectl.ok("apply view-last-applied cm c"))["data"] == {"a": "1", "b": "2"}


def test_an_object_made_otherwise_is_adopted_with_a_warning(kubectl: Kubectl) -> None:
    kubectl.create(config_map("c", a="1"))
    done = kubectl.run("apply -f -", stdin=manifest(config_map("c", a="2")))
    assert (done.code, done.out) == (0, "configmap/c configured\n")
    assert done.err == (
        "Warning: resource configmaps/c is missing the kubectl.kubernetes.io/last-applied-configuration "
        "annotation which is required by kubectl apply. kubectl apply should only be used on resources "
        "created declaratively by either kubectl create --save-config or kubectl apply. The missing "
        "annotation will be patched automatically.\n"
    )
    assert kubectl.apply(config_map("c", a="2")) == "configmap/c unchanged\n"


def test_an_object_that_is_going_is_pointed_out(kubectl: Kubectl) -> None:
    held = config_map("c", a="1")
    held["metadata"]["finalizers"] = ["example.com/held"]
    kubectl.apply(held)
    kubectl.ok("delete cm c --wait=false")
    done = kubectl.run("apply -f -", stdin=manifest({**held, "data": {"a": "2"}}))
    assert (done.code, done.out) == (0, "configmap/c configured\n")
    assert done.err == "Warning: Detected changes to resource c which is currently being deleted.\n"
    kubectl.ok("patch cm c --type=merge -p", '{"metadata":{"finalizers":null}}')
    assert kubectl.fails("get cm c") == 'Error from server (NotFound): configmaps "c" not found'


def test_a_dry_run_says_what_would_be(kubectl: Kubectl) -> None:
    new, changed = manifest(config_map("new")), manifest(config_map("c", a="2"))
    kubectl.apply(config_map("c", a="1"))
    assert kubectl.ok("apply -f - --dry-run=server", stdin=new) == "configmap/new created (server dry run)\n"
    printed = kubectl.ok("apply -f - --dry-run=server", stdin=changed)
    assert printed == "configmap/c configured (server dry run)\n"
    assert kubectl.ok("apply -f - --dry-run=client", stdin=changed) == "configmap/c configured (dry run)\n"
    assert kubectl.ok("get cm -o name") == "configmap/c\n"
    assert data(kubectl, "c") == {"a": "1"}


def test_many_documents_and_an_invalid_one_among_them(kubectl: Kubectl) -> None:
    assert kubectl.apply(service("web"), deployment("web"), config_map("c")) == (
        "service/web created\ndeployment.apps/web created\nconfigmap/c created\n"
    )
    bad = config_map("Not_A_Name")
    done = kubectl.run("apply -f -", stdin=manifest(config_map("before"), bad, config_map("after")))
    assert (done.code, done.out) == (1, "configmap/before created\nconfigmap/after created\n")
    assert done.err.startswith(
        'The ConfigMap "Not_A_Name" is invalid: metadata.name: Invalid value: "Not_A_Name": '
        "a lowercase RFC 1123 subdomain must consist of"
    )


def test_an_immutable_field_is_refused(kubectl: Kubectl) -> None:
    kubectl.apply(pod("p"))
    changed = pod("p")
    changed["spec"]["hostname"] = "else"
    said = kubectl.fails("apply -f -", stdin=manifest(changed))
    assert said.startswith(
        'The Pod "p" is invalid: spec: Forbidden: pod updates may not change fields other than'
    )
    assert kubectl.ok("apply -f - --force", stdin=manifest(changed)) == "pod/p configured\n"
    assert kubectl.value("get pod p", ".spec.hostname") == "else"


def test_prune_by_label_and_by_allow_list(kubectl: Kubectl) -> None:
    labels = {"set": "one"}
    kubectl.apply(config_map("a", labels=labels), config_map("b", labels=labels), config_map("other"))
    printed = kubectl.ok(
        "apply -f - --prune -l set=one --prune-allowlist=core/v1/ConfigMap",
        stdin=manifest(config_map("a", labels=labels)),
    )
    assert printed == "configmap/a unchanged\nconfigmap/b pruned\n"
    assert kubectl.ok("get cm -o name") == "configmap/a\nconfigmap/other\n"


def test_a_kustomization(kubectl: Kubectl, tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(manifest(deployment("web")))
    kustomization = {
        "namePrefix": "pre-",
        "labels": [{"pairs": {"team": "a"}, "includeSelectors": False}],
        "resources": ["base.yaml"],
        "images": [{"name": "nginx", "newTag": "9"}],
        "configMapGenerator": [
            {"name": "settings", "literals": ["k=v"], "options": {"disableNameSuffixHash": True}}
        ],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    assert kubectl.ok(f"apply -k {tmp_path}") == (
        "configmap/pre-settings created\ndeployment.apps/pre-web created\n"
    )
    made = kubectl.json("get deploy pre-web")
    assert made["metadata"]["labels"] == {"app": "web", "team": "a"}
    assert made["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:9"
    assert kubectl.ok(f"delete -k {tmp_path}") == (
        'configmap "pre-settings" deleted\ndeployment.apps "pre-web" deleted\n'
    )


def test_diff_tells_by_its_exit_code(kubectl: Kubectl) -> None:
    kubectl.apply(deployment("web"))
    same, changed = manifest(deployment("web")), manifest(deployment("web", replicas=5))
    assert kubectl.ok("diff -f -", stdin=same) == ""
    done = kubectl.run("diff -f -", stdin=changed)
    assert (done.code, done.err) == (1, "")
    signs = [line for line in done.out.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    assert signs == ["-  generation: 1", "+  generation: 2", "-  replicas: 2", "+  replicas: 5"]
    done = kubectl.run("diff -f -", stdin=manifest(config_map("new", a="1")))
    assert done.code == 1
    assert '+  a: "1"' in done.out
    assert kubectl.value("get deploy web", ".spec.replicas") == "2"


def test_diff_of_what_is_invalid_is_an_error(kubectl: Kubectl) -> None:
    wrong = deployment("web")
    wrong["spec"]["selector"]["matchLabels"] = {"app": "other"}
    done = kubectl.run("diff -f -", stdin=manifest(wrong))
    assert done.code > 1
    assert "`selector` does not match template `labels`" in done.err


def test_server_side_apply_creates_changes_and_takes_away(kubectl: Kubectl) -> None:
    said = kubectl.ok("apply --server-side -f -", stdin=manifest(config_map("c", a="1", b="1")))
    assert said.strip() == "configmap/c serverside-applied"
    kubectl.ok("apply --server-side -f -", stdin=manifest(config_map("c", a="2")))
    assert kubectl.value("get configmap c", ".data") == '{"a":"2"}'
    assert (
        kubectl.value("get configmap c --show-managed-fields", ".metadata.managedFields[*].manager")
        == "kubectl"
    )


def test_server_side_apply_names_who_else_owns_a_field(kubectl: Kubectl) -> None:
    kubectl.ok("apply --server-side --field-manager=other -f -", stdin=manifest(config_map("c", a="1")))
    said = kubectl.fails("apply --server-side -f -", stdin=manifest(config_map("c", a="2")))
    assert said.startswith('error: Apply failed with 1 conflict: conflict with "other": .data.a')
    kubectl.ok("apply --server-side --force-conflicts -f -", stdin=manifest(config_map("c", a="2")))
    assert kubectl.value("get configmap c", ".data.a") == "2"


def test_what_was_applied_by_the_client_can_be_applied_by_the_server(kubectl: Kubectl) -> None:
    kubectl.ok("apply -f -", stdin=manifest(config_map("c", a="1", b="1")))
    kubectl.ok("apply --server-side -f -", stdin=manifest(config_map("c", a="2", b="1")))
    assert kubectl.value("get configmap c", ".data.a") == "2"
    assert (
        '+  a: "3"'
        in kubectl.run("diff --server-side -f -", stdin=manifest(config_map("c", a="3", b="1"))).out
    )
