"""`fathom get | apply | delete | scale | rollout`: the same words on the same objects as kubectl."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.clients.kubectl import Done, Kubectl, manifest
from tests.clients.objects import Obj, config_map, deployment, pod, service

pytestmark = pytest.mark.kubectl


@dataclass(frozen=True)
class Fathom(Kubectl):
    def _command(self, command: str, arguments: tuple[str, ...]) -> list[str]:
        binary, *words = super()._command(command, arguments)
        where = [binary, *words[:2]] if self.namespace else []
        return [*(sys.executable, "-m", "fathom.cli"), *(words[2:] if where else words), *where[1:]]


@pytest.fixture
def fathom(kubectl: Kubectl) -> Fathom:
    return Fathom("fathom", kubectl.kubeconfig, kubectl.home, kubectl.namespace)


def both(kubectl: Kubectl, fathom: Fathom, command: str, *arguments: str) -> tuple[Done, Done]:
    return kubectl.run(command, *arguments), fathom.run(command, *arguments)


@pytest.fixture
def objects(kubectl: Kubectl) -> Kubectl:
    """Pods 1 to 3 on nodes, a Deployment, a Service, a ConfigMap."""
    pods = [pod(f"p-{number}", node=f"n-{number % 2}", labels={"app": "p"}) for number in (1, 2, 3)]
    kubectl.apply(deployment("web"), service("web"), config_map("c", a="1", b="x\ny\n", yes="no"), *pods)
    return kubectl


PRINTED = (
    "get pods --no-headers -o custom-columns=N:.metadata.name,NODE:.spec.nodeName,X:.spec.none",
    "get pods -o name",
    "get deploy,svc,cm -o name",
    "get deployments.apps web -o yaml",
    "get deploy web -o json",
    "get po p-1 p-2 -o json",
    "get cm -o yaml",
    "get pods -l app=p -o name",
    "get pods --field-selector spec.nodeName=n-1 -o name",
    "get pods -l app=none",
    "get pods p-1 none -o name",
    "get svc web -o jsonpath={.spec.ports[0].port}",
    'get pods -o \'jsonpath={range .items[*]}{.metadata.name}{"\\t"}{.spec.nodeName}{"\\n"}{end}\'',
    "get cm c -o jsonpath={.data}",
    "get pods -o jsonpath={.items[?(@.spec.nodeName==\\'n-1\\')].metadata.name}",
    "get pod none",
    "get --raw /readyz",
)
TABLES = (
    "get pods",
    "get pods -o wide",
    "get pods,svc",
    "get deploy --show-labels",
    "get cm -L a",
)


def test_the_same_is_printed(objects: Kubectl, fathom: Fathom) -> None:
    for command in PRINTED:
        theirs, ours = both(objects, fathom, command)
        assert (ours.code, ours.out) == (theirs.code, theirs.out), command
        assert bool(ours.err) == bool(theirs.err), command


def test_tables_have_the_same_columns_and_rows(objects: Kubectl, fathom: Fathom) -> None:
    for command in TABLES:
        for _ in range(20):
            theirs, ours = both(objects, fathom, command)
            if theirs == ours:  # Else a second has passed between the two.
                break
        assert ours == theirs, command


def test_a_table_is_in_the_order_of_numbers(kubectl: Kubectl, fathom: Fathom) -> None:
    kubectl.apply(*(config_map(f"c-{number}") for number in (10, 2, 1)))
    assert [row["NAME"] for row in fathom.rows("get cm")] == ["c-1", "c-2", "c-10"]


def test_a_watch_prints_each_change(objects: Kubectl, fathom: Fathom) -> None:
    with fathom.started("get cm -w") as watch:
        watch.until("c  ")
        objects.apply(config_map("later", a="1"))
        assert watch.matching("^later").split()[:2] == ["later", "1"]
        objects.ok("delete cm later")


# Apply.


def test_what_one_applies_is_unchanged_for_the_other(kubectl: Kubectl, fathom: Fathom) -> None:
    objs = (deployment("web"), config_map("c", text="<&>\u2028", more="1"))
    created = "deployment.apps/web created\nconfigmap/c created\n"
    assert fathom.apply(*objs) == created
    for client in (kubectl, fathom, kubectl):
        assert client.apply(*objs) == created.replace("created", "unchanged")
    changed = (deployment("web", replicas=5), config_map("c", text="<&>"))
    assert fathom.apply(*changed) == created.replace("created", "configured")
    assert kubectl.apply(*changed) == created.replace("created", "unchanged")
    assert kubectl.json("get cm c")["data"] == {"text": "<&>"}


def test_what_is_no_longer_declared_goes_and_what_others_wrote_stays(
    kubectl: Kubectl, fathom: Fathom
) -> None:
    fathom.apply(config_map("c", mine="1", gone="1", labels={"l": "1", "m": "1"}))
    kubectl.ok("patch cm c --type=merge -p", '{"data":{"theirs":"1"},"metadata":{"labels":{"t":"1"}}}')
    assert fathom.apply(config_map("c", mine="1", labels={"l": "1"})) == "configmap/c configured\n"
    found = kubectl.json("get cm c")
    assert (found["data"], found["metadata"]["labels"]) == (
        {"mine": "1", "theirs": "1"},
        {"l": "1", "t": "1"},
    )


def containers(kubectl: Kubectl) -> list[Obj]:
    listed: list[Obj] = kubectl.json("get deploy web")["spec"]["template"]["spec"]["containers"]
    return listed


def test_containers_are_merged_by_name_and_removed_by_name(kubectl: Kubectl, fathom: Fathom) -> None:
    declared: Any = deployment("web")
    spec = declared["spec"]["template"]["spec"]
    spec["containers"] = [{"name": "first", "image": "f:1"}, *spec["containers"]]
    fathom.apply(declared)
    side = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "s:1"}]}}}}
    kubectl.ok("patch deploy web -p", json.dumps(side))
    assert fathom.apply(deployment("web", image="nginx:1.28")) == "deployment.apps/web configured\n"
    assert {each["name"]: each["image"] for each in containers(kubectl)} == {
        "side": "s:1",
        "main": "nginx:1.28",
    }


def test_another_strategy_takes_the_place_of_the_old_one(kubectl: Kubectl, fathom: Fathom) -> None:
    """The server has filled in rollingUpdate, which nobody declared."""
    declared: Any = deployment("web")
    fathom.apply(declared)
    declared["spec"]["strategy"] = {"type": "Recreate"}
    assert fathom.apply(declared) == "deployment.apps/web configured\n"
    assert kubectl.json("get deploy web")["spec"]["strategy"] == {"type": "Recreate"}


def test_a_custom_kind_is_applied_by_a_merge_patch(fathom: Fathom) -> None:
    override = {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "SchedulerOverride",
        "metadata": {"name": "o"},
        "spec": {
            "target": "workload/web",
            "scope": "cluster",
            "reason": "a test",
            "expiresAfter": "10m",
            "changes": {"avoidZones": ["a"]},
        },
    }
    assert fathom.apply(override) == "scheduleroverride.fathom.dev/o created\n"
    assert fathom.apply(override) == "scheduleroverride.fathom.dev/o unchanged\n"


def test_a_dry_run_changes_nothing(kubectl: Kubectl, fathom: Fathom) -> None:
    fathom.apply(config_map("c", a="1"))
    for mode, note in (("server", "server dry run"), ("client", "dry run")):
        said = fathom.ok(
            f"apply -f - --dry-run={mode}", stdin=manifest(config_map("c", a="2"), config_map("d"))
        )
        assert said == f"configmap/c configured ({note})\nconfigmap/d created ({note})\n"
    assert kubectl.ok("get cm -o name") == "configmap/c\n"


def test_a_refused_object_does_not_stop_the_others(fathom: Fathom) -> None:
    bad = config_map("Not_A_Name")
    done = fathom.run("apply -f -", stdin=manifest(config_map("before"), bad, config_map("after")))
    assert (done.code, done.out) == (1, "configmap/before created\nconfigmap/after created\n")
    assert done.err.startswith("fathom: error: standard input, document 2: ConfigMap")
    assert "Not_A_Name" in done.err


def test_a_field_that_the_kind_does_not_have_is_refused(fathom: Fathom) -> None:
    wrong: Any = deployment("web")
    wrong["spec"]["replica"] = 3
    assert 'unknown field "spec.replica"' in fathom.fails("apply -f -", stdin=manifest(wrong))


def test_directories_and_files(fathom: Fathom, tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "a.yaml").write_text(manifest(config_map("a")))
    (tmp_path / "b.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [config_map("b")]})
    )
    (tmp_path / "below" / "c.yml").write_text(f"# A comment.\n---\n{manifest(config_map('c'))}---\n")
    (tmp_path / "notes.txt").write_text("no object")
    assert fathom.ok(f"apply -f {tmp_path}") == "configmap/a created\nconfigmap/b created\n"
    assert "configmap/c created\n" in fathom.ok(f"apply -R -f {tmp_path}")
    assert fathom.ok(f"delete -R -f {tmp_path}") == "".join(f'configmap "{name}" deleted\n' for name in "abc")


# The others.


def test_delete_waits_until_the_objects_are_gone(objects: Kubectl, fathom: Fathom) -> None:
    assert fathom.ok("delete pod/p-1 cm/c") == 'pod "p-1" deleted\nconfigmap "c" deleted\n'
    assert fathom.ok("delete pods -l app=p") == 'pod "p-2" deleted\npod "p-3" deleted\n'
    assert fathom.fails("delete pod p-1") == 'fathom: error: pods "p-1" not found'
    assert fathom.ok("delete pod p-1 --ignore-not-found") == ""
    assert fathom.fails("delete pods", code=2).endswith(
        "name the objects of the kind pods, or give -l LABELS or --all"
    )
    assert objects.ok("get pods -o name") == ""


def test_an_object_that_something_holds_is_not_gone(kubectl: Kubectl, fathom: Fathom) -> None:
    held = config_map("c")
    held["metadata"]["finalizers"] = ["example.com/held"]
    fathom.apply(held)
    assert "is not gone yet" in fathom.fails("delete cm c --timeout=1s")
    kubectl.ok("patch cm c --type=merge -p", '{"metadata":{"finalizers":null}}')


def test_replicas_are_scaled(objects: Kubectl, fathom: Fathom) -> None:
    assert fathom.ok("scale deploy/web --replicas=7") == "deployment.apps/web scaled\n"
    assert objects.value("get deploy web", ".spec.replicas") == "7"
    refused = fathom.fails("scale deploy web --replicas=3 --current-replicas=2")
    assert refused == "fathom: error: deployment.apps/web has 7 replicas, not 2: nothing was changed"


def test_a_rollout_without_controllers_does_not_end(objects: Kubectl, fathom: Fathom) -> None:
    said = fathom.run("rollout status deploy/web --timeout=1s")
    assert (said.code, said.out) == (1, "Waiting for deployment spec update to be observed...\n")
    assert "ask with `fathom why deployment/web" in said.err
    assert fathom.ok("rollout pause deploy/web") == "deployment.apps/web paused\n"
    assert fathom.fails("rollout pause deploy web") == "fathom: error: deployment.apps/web is already paused"
    assert fathom.ok("rollout resume deploy/web") == "deployment.apps/web resumed\n"
    assert fathom.ok("rollout restart deploy/web") == "deployment.apps/web restarted\n"
    assert "has no earlier revision" in fathom.fails("rollout undo deploy/web")
    assert "have no rollouts" in fathom.fails("rollout status cm/c", code=2)


def test_a_description_has_the_fields_in_words_and_the_events(
    objects: Kubectl, fathom: Fathom, namespace: str
) -> None:
    lines = fathom.ok("describe deploy web").splitlines()
    assert lines[:2] == ["Name:         web", f"Namespace:    {namespace}"]
    assert "  Replicas:                   2" in lines
    assert "      app:  web" in lines
    assert "Why:" in lines
    assert lines[-1] == "Events:  <none>"


MISTAKES = (
    ("get depolyments", 'the server has no kind "depolyments": did you mean "deployments"?'),
    ("get", "name a kind, or an object"),
    ("get pods -o xml", "-o must be one of wide, json"),
    ("get pod/a/b", "an object reads KIND/NAME"),
    ("get pods -o jsonpath={.a", "has no partner"),
    ("apply", "name the files: -f FILE"),
    ("apply -f /nowhere.yaml", "cannot read /nowhere.yaml: No such file or directory"),
    ("apply -f https://example.com/x.yaml", "download it first"),
    ("logs", "name a pod, or what owns pods"),
    ("scale deploy --replicas=2", "name the objects of the kind deployments.apps"),
    ("rollout undo deploy", "name one object"),
)


def test_mistakes_are_told(fathom: Fathom) -> None:
    for command, complaint in MISTAKES:
        said = fathom.fails(command, code=2)
        assert said.startswith("fathom: error: ")
        assert complaint in said
        assert len(said.splitlines()) == 1
