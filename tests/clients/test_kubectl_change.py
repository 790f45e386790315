"""Changing what is there: edit, replace, patch, label, annotate, scale, set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from tests.clients.kubectl import Kubectl, manifest
from tests.clients.objects import Obj, config_map, deployment, pod, replica_set

pytestmark = pytest.mark.kubectl

BAD_REQUEST = "Error from server (BadRequest): "
MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


@pytest.fixture
def web(kubectl: Kubectl) -> Kubectl:
    kubectl.create(deployment("web"))
    return kubectl


def editor(tmp_path: Path, script: str) -> str:
    """An editor that changes its file with sed."""
    file = tmp_path / "editor"
    file.write_text(f"#!/bin/sh\nsed -i '{script}' \"$1\"\n")
    file.chmod(0o755)
    return str(file)


def container(kubectl: Kubectl) -> Obj:
    made: Obj = kubectl.json("get deploy web")["spec"]["template"]["spec"]["containers"][0]
    return made


def test_edit_sends_what_the_editor_changed(web: Kubectl, tmp_path: Path) -> None:
    changing = web.with_environment(EDITOR=editor(tmp_path, "s/replicas: 2/replicas: 4/"))
    assert changing.ok("edit deploy web") == "deployment.apps/web edited\n"
    assert web.value("get deploy web", ".spec.replicas") == "4"
    idle = web.with_environment(EDITOR=editor(tmp_path, "s/nothing/nothing/"))
    assert idle.run("edit deploy web").err == "Edit cancelled, no changes made.\n"


def test_edit_of_something_invalid_keeps_the_text(web: Kubectl, tmp_path: Path) -> None:
    wrong = web.with_environment(EDITOR=editor(tmp_path, "s/replicas: 2/replicas: -2/"))
    done = wrong.run("edit deploy web")
    assert done.code == 1
    assert done.err.startswith(
        'error: deployments.apps "web" is invalid\nA copy of your changes has been stored'
    )
    assert web.value("get deploy web", ".spec.replicas") == "2"


def test_edit_the_status(web: Kubectl, tmp_path: Path) -> None:
    changing = web.with_environment(EDITOR=editor(tmp_path, "s/^status: {}/status: {replicas: 7}/"))
    assert changing.ok("edit deploy web --subresource=status") == "deployment.apps/web edited\n"
    assert web.value("get deploy web", ".status.replicas") == "7"


def test_replace_is_the_whole_object(kubectl: Kubectl) -> None:
    kubectl.create(config_map("c", a="1", labels={"l": "1"}))
    printed = kubectl.ok("replace -f -", stdin=manifest(config_map("c", b="2")))
    assert printed == "configmap/c replaced\n"
    made = kubectl.json("get cm c")
    assert (made["data"], made["metadata"].get("labels")) == ({"b": "2"}, None)


def test_replace_with_an_old_revision_is_a_conflict(kubectl: Kubectl) -> None:
    kubectl.create(config_map("c", a="1"))
    old = kubectl.json("get cm c")
    kubectl.ok("label cm c x=y")
    said = kubectl.fails("replace -f -", stdin=json.dumps({**old, "data": {"a": "2"}}))
    assert said == (
        'Error from server (Conflict): error when replacing "STDIN": '
        f'Operation cannot be fulfilled on configmaps "c": {MODIFIED}'
    )


def test_replace_of_what_is_not_there(kubectl: Kubectl) -> None:
    said = kubectl.fails("replace -f -", stdin=manifest(config_map("none")))
    assert said == 'Error from server (NotFound): error when replacing "STDIN": configmaps "none" not found'


def test_replace_by_force_makes_a_new_object(kubectl: Kubectl) -> None:
    kubectl.create(pod("p"))
    uid = kubectl.value("get pod p", ".metadata.uid")
    printed = kubectl.ok("replace --force -f -", stdin=manifest(pod("p", image="other")))
    assert printed == 'pod "p" deleted\npod/p replaced\n'
    assert kubectl.value("get pod p", ".metadata.uid") != uid


def test_patches_of_every_type(web: Kubectl) -> None:
    assert web.ok("patch deploy web -p", '{"spec":{"replicas":3}}') == "deployment.apps/web patched\n"
    assert (
        web.ok("patch deploy web -p", '{"spec":{"replicas":3}}')
        == "deployment.apps/web patched (no change)\n"
    )
    web.ok(
        "patch deploy web -p", '{"spec":{"template":{"spec":{"containers":[{"name":"b","image":"b:1"}]}}}}'
    )
    names = ".spec.template.spec.containers[*].name"
    assert web.value("get deploy web", names) == "b main"
    gone = '{"spec":{"template":{"spec":{"containers":[{"name":"b","$patch":"delete"}]}}}}'
    web.ok("patch deploy web -p", gone)
    assert web.value("get deploy web", names) == "main"
    web.ok("patch deploy web --type=merge -p", '{"metadata":{"labels":{"app":null,"x":"1"}}}')
    assert web.json("get deploy web")["metadata"]["labels"] == {"x": "1"}
    operations = '[{"op":"test","path":"/spec/replicas","value":3},{"op":"remove","path":"/metadata/labels"}]'
    web.ok("patch deploy web --type=json -p", operations)
    assert "labels" not in web.json("get deploy web")["metadata"]
    assert web.ok("patch deploy web --dry-run=server -p", '{"spec":{"replicas":9}}') == (
        "deployment.apps/web patched\n"
    )
    assert web.value("get deploy web", ".spec.replicas") == "3"


def test_a_patch_of_a_subresource_leaves_the_rest_alone(web: Kubectl) -> None:
    both = '{"status":{"replicas":2},"spec":{"replicas":9}}'
    assert (
        web.ok("patch deploy web --subresource=status --type=merge -p", both)
        == "deployment.apps/web patched\n"
    )
    made = web.json("get deploy web")
    assert (made["spec"]["replicas"], made["status"], made["metadata"]["generation"]) == (
        2,
        {"replicas": 2},
        1,
    )
    assert (
        web.ok("patch deploy web -p", '{"status":{"replicas":5}}')
        == "deployment.apps/web patched (no change)\n"
    )
    printed = web.ok("patch deploy web --subresource=scale --type=merge -p", '{"spec":{"replicas":6}}')
    assert printed == "scale.autoscaling/web patched\n"
    made = web.json("get deploy web")
    assert (made["spec"]["replicas"], made["metadata"]["generation"]) == (6, 2)


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        ("-p nonsense",
         f"{BAD_REQUEST}error decoding patch: json: cannot unmarshal string into Go value of type "
         "map[string]interface {}"),
        ("""--type=json -p '{"a":1}'""",
         f"{BAD_REQUEST}error decoding patch: json: cannot unmarshal object into Go value of type "
         "[]interface {}"),
        ("""-p '{"spec":{"replicas":"x"}}'""",
         "The request is invalid: patch: Invalid value: "
         '"map[spec:map[replicas:x]]": unrecognized type: int32'),
        ("""-p '{"spec":{"replicas":-1}}'""",
         'The Deployment "web" is invalid: '
         "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        ("""-p '{"metadata":{"name":"other"}}'""",
         f"{BAD_REQUEST}the name of the object (other) does not match the name on the URL (web)"),
    ],
)  # fmt: skip
def test_patches_that_are_refused(web: Kubectl, patch: str, said: str) -> None:
    assert web.fails(f"patch deploy web {patch}") == said


def test_an_unknown_field_in_a_patch_is_a_warning(web: Kubectl) -> None:
    done = web.run("patch deploy web -p", '{"spec":{"nosuch":1}}')
    assert (done.code, done.out) == (0, "deployment.apps/web patched (no change)\n")
    assert done.err == 'Warning: unknown field "spec.nosuch"\n'


def test_labels(kubectl: Kubectl) -> None:
    kubectl.create(config_map("c", labels={"kept": "1"}))
    assert kubectl.ok("label cm c a=1") == "configmap/c labeled\n"
    said = kubectl.fails("label cm c a=2")
    assert said == "error: 'a' already has a value (1), and --overwrite is false"
    assert kubectl.ok("label cm c a=2 --overwrite") == "configmap/c labeled\n"
    assert kubectl.ok("label cm c a=2") == "configmap/c not labeled\n"
    assert kubectl.ok("label cm c a-") == "configmap/c unlabeled\n"
    assert kubectl.ok("label cm c a-") == 'label "a" not found.\nconfigmap/c not labeled\n'
    kubectl.ok("label cm --all b=1")
    assert kubectl.json("get cm c")["metadata"]["labels"] == {"b": "1", "kept": "1"}
    said = kubectl.fails("label cm c", "bad key=1")
    assert said.startswith(
        'The ConfigMap "c" is invalid: metadata.labels: Invalid value: "bad key": name part must'
    )
    assert kubectl.fails("label cm none a=1") == 'Error from server (NotFound): configmaps "none" not found'


def test_annotations(kubectl: Kubectl) -> None:
    kubectl.create(config_map("c"))
    assert kubectl.ok("annotate cm c", "note=two words") == "configmap/c annotated\n"
    said = kubectl.fails("annotate cm c note=x")
    assert said == (
        "error: --overwrite is false but found the following declared annotation(s): "
        "'note' already has a value (two words)"
    )
    assert kubectl.ok("annotate cm c note=x --overwrite") == "configmap/c annotated\n"
    version = kubectl.value("get cm c", ".metadata.resourceVersion")
    assert kubectl.ok(f"annotate cm c other=1 --resource-version={version}") == "configmap/c annotated\n"
    said = kubectl.fails(f"annotate cm c other=2 --overwrite --resource-version={version}")
    assert (
        said == f'Error from server (Conflict): Operation cannot be fulfilled on configmaps "c": {MODIFIED}'
    )
    assert kubectl.ok("annotate cm c note- other-") == "configmap/c annotated\n"
    assert "annotations" not in kubectl.json("get cm c")["metadata"]


def test_scale_with_and_without_preconditions(web: Kubectl) -> None:
    assert web.ok("scale deploy web --replicas=5") == "deployment.apps/web scaled\n"
    said = web.fails("scale deploy web --replicas=1 --current-replicas=3")
    assert said == "error: Expected replicas to be 3, was 5"
    assert web.ok("scale deploy web --replicas=1 --current-replicas=5") == "deployment.apps/web scaled\n"
    version = web.value("get deploy web", ".metadata.resourceVersion")
    web.create(replica_set("rs"))
    assert web.ok("scale deploy/web rs/rs --replicas=4") == (
        "deployment.apps/web scaled\nreplicaset.apps/rs scaled\n"
    )
    said = web.fails(f"scale deploy web --replicas=2 --resource-version={version}")
    assert said.startswith("error: Expected resource version to be")
    assert web.value("get deploy web", ".spec.replicas") == "4"
    assert web.value("get deploy web", ".metadata.generation") == "4"


def test_set_changes_the_template(web: Kubectl) -> None:
    assert web.ok("set image deploy/web main=nginx:2") == "deployment.apps/web image updated\n"
    assert web.ok("set image deploy/web main=nginx:2") == ""
    assert web.ok("set env deploy/web A=b C=d") == "deployment.apps/web env updated\n"
    assert web.ok("set env deploy/web C-") == "deployment.apps/web env updated\n"
    printed = web.ok("set resources deploy web --limits=cpu=200m,memory=64Mi --requests=cpu=100m")
    assert printed == "deployment.apps/web resource requirements updated\n"
    made = container(web)
    assert (made["image"], made["env"]) == ("nginx:2", [{"name": "A", "value": "b"}])
    assert made["resources"] == {"limits": {"cpu": "200m", "memory": "64Mi"}, "requests": {"cpu": "100m"}}
    assert web.ok("set serviceaccount deploy web robot") == "deployment.apps/web serviceaccount updated\n"
    assert web.ok("set env deploy/web --list") == "# Deployment web, container main\nA=b\n"
    assert web.fails("set image deploy/web none=x") == 'error: unable to find container named "none"'


def test_set_selector_and_subject(kubectl: Kubectl) -> None:
    kubectl.ok("create service clusterip s --tcp=80")
    assert kubectl.ok("set selector svc s app=other") == "service/s selector updated\n"
    assert kubectl.json("get svc s")["spec"]["selector"] == {"app": "other"}
    kubectl.ok("create rolebinding rb --clusterrole=view --user=jane")
    assert kubectl.ok("set subject rolebinding rb --group=devs") == (
        "rolebinding.rbac.authorization.k8s.io/rb subjects updated\n"
    )
    subjects = kubectl.json("get rolebinding rb")["subjects"]
    assert [subject["name"] for subject in subjects] == ["jane", "devs"]


def test_what_was_written_is_what_is_read_back(kubectl: Kubectl) -> None:
    """Characters, numbers that look like text, empty and odd values survive the way through YAML and back."""
    odd = {
        "empty": "",
        "unicode": "žluťoučký 🐎",
        "number": "010",
        "yes": "yes",
        "lines": "a\n b\n",
        "quote": '"\\',
    }
    kubectl.apply({**config_map("c"), "data": odd})
    assert kubectl.json("get cm c")["data"] == odd
    assert yaml.safe_load(kubectl.ok("get cm c -o yaml"))["data"] == odd
