"""`fathom patch | annotate | label | taint | set | create | replace | edit`: what kubectl does, by both."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from tests.clients.kubectl import Done, Kubectl
from tests.clients.objects import config_map, deployment, pod
from tests.clients.test_fathom_objects import Fathom

pytestmark = pytest.mark.kubectl

SIDE = '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"s:1"}]}}}}'
COLOUR = '[{"op":"add","path":"/data/colour","value":"blue"}]'
# The same for both, each on objects of its own, in this order. {} is the suffix of the objects' names.
CHANGES = (
    ("patch deploy web-{} -p", SIDE),
    ("patch deploy web-{} -p", SIDE),
    ("patch deployment/web-{} --type=merge -p", '{"spec":{"replicas":7}}'),
    ("patch cm c-{} --type=json -p", COLOUR),
    ("patch cm c-{} --type=json --dry-run=server -p", '[{"op":"remove","path":"/data/colour"}]'),
    ("patch cm c-{} -o name -p", "data: {size: large}"),
    ("patch cm c-{} --type=json --dry-run=client -p", '[{"op":"remove","path":"/data/colour"}]'),
    ("patch deploy web-{} --subresource=status --type=merge -p", '{"status":{"replicas":3}}'),
    ("patch cm none-{} -p", "data: {}"),
    ("annotate cm c-{} team=a note=with=equals",),
    ("annotate cm c-{} team=b",),
    ("annotate cm c-{} team=b --overwrite",),
    ("annotate cm c-{} team- note-",),
    ("label deploy,cm web-{} tier=front",),
    ("label cm/c-{} deploy/web-{} tier=front",),
    ("label cm c-{} tier=front",),
    ("label cm c-{} tier=back",),
    ("label cm c-{} tier=back --overwrite",),
    ("label cm c-{} tier-",),
    ("set image deploy/web-{} side=s:2",),
    ("set image deploy/web-{} side=s:2",),
    ("set image deploy/web-{} none=s:2",),
    ("set image deploy/web-{} *=s:3",),
    ("set resources deploy/web-{} -c side --requests=cpu=100m,memory=64Mi --limits=cpu=1",),
    ("set resources deploy/web-{} -c side --limits=cpu=0",),
    ("set resources deploy web-{} --limits=memory=128Mi",),
    ("create configmap made-{} --from-literal=a=1 --from-literal=b=x=y",),
    ("create configmap made-{} --from-literal=a=1",),
    ("create secret generic made-{} --from-literal=user=ann",),
    ("create secret generic empty-{}",),
)
KINDS = ("deploy", "cm", "secret")


def _plain(obj: dict[str, Any], suffix: str) -> dict[str, Any]:
    """The parts of an object that do not depend on who wrote it and when."""
    meta = obj["metadata"]
    kept = {name: meta.get(name) for name in ("labels", "annotations", "generation")}
    rest = {name: value for name, value in obj.items() if name != "metadata"}
    named = json.dumps({"name": meta["name"], **kept, **rest}, sort_keys=True)
    whole: dict[str, Any] = json.loads(named.replace(f"-{suffix}", ""))
    return whole


def objects_of(kubectl: Kubectl, suffix: str) -> list[dict[str, Any]]:
    listed = [obj for kind in KINDS for obj in kubectl.json(f"get {kind}")["items"]]
    return [_plain(obj, suffix) for obj in listed if obj["metadata"]["name"].endswith(f"-{suffix}")]


def _seen(done: Done) -> tuple[int, str, bool]:
    """What must be the same of both. kubectl does not say of a patch that it is a dry run."""
    return done.code, re.sub(r" \((server )?dry run\)", "", done.out.replace("-f", "-k")), bool(done.err)


def test_both_change_objects_alike(kubectl: Kubectl) -> None:
    fathom = Fathom("fathom", kubectl.kubeconfig, kubectl.home, kubectl.namespace)
    kubectl.apply(
        *(made for who in "kf" for made in (deployment(f"web-{who}"), config_map(f"c-{who}", a="1")))
    )
    differ = []
    for command, *rest in CHANGES:
        theirs = kubectl.run(command.replace("{}", "k"), *rest)
        ours = fathom.run(command.replace("{}", "f"), *rest)
        if _seen(ours) != _seen(theirs):
            differ.append((command, ours, theirs))
    assert differ == []
    assert objects_of(kubectl, "f") == objects_of(kubectl, "k")


def test_a_pod_is_replaced_by_a_patched_one(kubectl: Kubectl) -> None:
    fathom = Fathom("fathom", kubectl.kubeconfig, kubectl.home, kubectl.namespace)
    kubectl.apply(pod("p-k"), pod("p-f"))
    patch = '[{"op":"add","path":"/spec/nodeSelector","value":{"disk":"ssd"}}]'
    replaced = {}
    for client, name in ((kubectl, "p-k"), (fathom, "p-f")):
        uid = kubectl.json(f"get pod {name}")["metadata"]["uid"]
        patched = client.ok(f"patch pod {name} --type=json --dry-run=client -o json -p", patch)
        done = client.ok("replace --force -f -", stdin=patched)
        there = kubectl.json(f"get pod {name}")
        assert there["metadata"]["uid"] != uid
        replaced[name] = (done.replace(name, "p"), there["spec"]["nodeSelector"])
    assert replaced["p-k"] == replaced["p-f"]


def test_a_file_replaces_the_whole_object(kubectl: Kubectl) -> None:
    fathom = Fathom("fathom", kubectl.kubeconfig, kubectl.home, kubectl.namespace)
    kubectl.apply(config_map("c", a="1", b="2"))
    assert fathom.ok("replace -f -", stdin=json.dumps(config_map("c", b="3"))) == "configmap/c replaced\n"
    assert kubectl.json("get cm c")["data"] == {"b": "3"}
    assert fathom.run("replace -f -", stdin=json.dumps(config_map("none"))).code == 1


TAINTS = (
    "taint node {} disk=slow:NoSchedule gpu:PreferNoSchedule",
    "taint nodes {} disk=fast:NoSchedule",
    "taint nodes {} disk=fast:NoSchedule --overwrite",
    "taint nodes {} disk=x:NoExecute gpu-",
    "taint nodes {} none-",
    "taint nodes {} disk:NoExecute-",
    "taint nodes {} disk-",
)


def test_both_taint_nodes_alike(kubectl: Kubectl) -> None:
    fathom = Fathom("fathom", kubectl.kubeconfig, kubectl.home, "")
    kubectl.apply(
        *({"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"taint-{who}"}} for who in "kf")
    )
    for command in TAINTS:
        theirs, ours = kubectl.run(command.format("taint-k")), fathom.run(command.format("taint-f"))
        assert (ours.out.replace("-f", "-k"), ours.code) == (theirs.out, theirs.code), (command, ours, theirs)
        found = [kubectl.json(f"get node taint-{who}")["spec"].get("taints", []) for who in "kf"]
        assert _unordered(found[0]) == _unordered(found[1]), command


def _unordered(taints: list[dict[str, str]]) -> list[tuple[str, ...]]:
    return sorted((each["key"], each.get("value", ""), each["effect"]) for each in taints)


def editing(kubectl: Kubectl, script: str) -> Fathom:
    """With an editor that runs the script."""
    path = kubectl.home / "editor"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    environment = {"EDITOR": str(path)}
    return Fathom("fathom", kubectl.kubeconfig, kubectl.home, kubectl.namespace, environment)


def test_an_edit_writes_the_changed_fields(kubectl: Kubectl) -> None:
    kubectl.apply(config_map("c", a="1", gone="1"))
    for script, printed, data in (
        ('sed -i \'s/^  a: "1"/  a: "2"/; /^  gone:/d\' $1', "configmap/c edited\n", {"a": "2"}),
        ("true", "Edit cancelled, no changes made.\n", {"a": "2"}),
        (": > $1", "Edit cancelled, no changes made.\n", {"a": "2"}),
    ):
        assert editing(kubectl, script).ok("edit cm c") == printed
        assert kubectl.json("get cm c")["data"] == data
    assert not list(kubectl.home.glob("fathom-edit-c-*"))


def test_what_is_refused_after_an_edit_is_kept(kubectl: Kubectl) -> None:
    kubectl.apply(deployment("refused"))
    refused = editing(kubectl, "sed -i 's/  replicas: .*/  replicas: -3/' $1").run("edit deploy refused")
    [kept] = kubectl.home.glob("fathom-edit-refused-*")
    assert (refused.code, str(kept) in refused.err, "replicas: -3" in kept.read_text()) == (1, True, True)


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("patch cm c", "give the patch with -p, or its file with --patch-file"),
        ("patch cm c --type=json -p {}", "the patch must be a list of operations, as --type says"),
        ("annotate cm c", "say which annotation to set or remove: KEY=VALUE or KEY-"),
        ("label cm a=1", "name the objects of the kind configmaps that are to be changed"),
        ("taint node n a=1:Never", "a taint reads KEY=VALUE:EFFECT"),
        ("set resources deploy/web", "give --requests, --limits or both"),
        ("set image deploy/web", "say which image a container gets: CONTAINER=IMAGE"),
        ("create secret tls x", "only `generic` Secrets can be created here"),
        ("create configmap x --from-file=/none", "cannot read /none: No such file or directory"),
        ("create", "name the files: -f FILE"),
    ],
)
def test_mistakes_are_told(kubectl: Kubectl, command: str, error: str) -> None:
    fathom = Fathom("fathom", kubectl.kubeconfig, kubectl.home, "")
    done = fathom.run(command)
    assert (done.code, done.err.startswith(f"fathom: error: {error}")) == (2, True), done
