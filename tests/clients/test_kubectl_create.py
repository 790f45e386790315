"""`kubectl create`, `run`, `expose`, `autoscale`: new objects from files, from stdin, from flags."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from tests.clients.kubectl import Kubectl, manifest
from tests.clients.objects import config_map, deployment, pod
from tests.clients.running import Server

pytestmark = pytest.mark.kubectl


def test_from_files_directories_and_stdin(kubectl: Kubectl, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(manifest(config_map("a"), config_map("b")))
    (tmp_path / "c.json").write_text(json.dumps(config_map("c")))
    assert (
        kubectl.ok(f"create -f {tmp_path}")
        == "configmap/a created\nconfigmap/b created\nconfigmap/c created\n"
    )
    assert kubectl.ok("create -f -", stdin=manifest(config_map("d"))) == "configmap/d created\n"


def test_what_is_there_is_not_created_again(kubectl: Kubectl) -> None:
    kubectl.create(config_map("a"))
    said = kubectl.fails("create -f -", stdin=manifest(config_map("a")))
    assert (
        said
        == 'Error from server (AlreadyExists): error when creating "STDIN": configmaps "a" already exists'
    )


def test_generated_names(kubectl: Kubectl) -> None:
    made = config_map("x")
    made["metadata"] = {"generateName": "gen-"}
    printed = [kubectl.ok("create -f - -o name", stdin=manifest(made)).strip() for _ in range(2)]
    assert all(
        name.startswith("configmap/gen-") and len(name) == len("configmap/gen-") + 5 for name in printed
    )
    assert printed[0] != printed[1]


def test_a_dry_run_on_the_server_leaves_nothing(kubectl: Kubectl) -> None:
    printed = kubectl.ok("create -f - --dry-run=server", stdin=manifest(config_map("a")))
    assert printed == "configmap/a created (server dry run)\n"
    made = json.loads(kubectl.ok("create -f - --dry-run=server -o json", stdin=manifest(pod("p"))))
    assert made["spec"]["schedulerName"] == "default-scheduler"
    assert kubectl.run("get cm,pods").err.startswith("No resources found")


def test_unknown_fields_are_refused_unless_told_otherwise(kubectl: Kubectl) -> None:
    odd = {**config_map("a"), "nonsense": {"deep": 1}}
    said = kubectl.fails("create -f -", stdin=manifest(odd))
    assert said == (
        'Error from server (BadRequest): error when creating "STDIN": ConfigMap in version "v1" cannot be '
        'handled as a ConfigMap: strict decoding error: unknown field "nonsense"'
    )
    done = kubectl.run("create -f - --validate=warn", stdin=manifest(odd))
    assert (done.code, done.out, done.err) == (
        0,
        "configmap/a created\n",
        'Warning: unknown field "nonsense"\n',
    )
    done = kubectl.run("create -f - --validate=ignore", stdin=manifest({**odd, "metadata": {"name": "b"}}))
    assert (done.code, done.out, done.err) == (0, "configmap/b created\n", "")


def test_warnings_of_what_is_seldom_meant(kubectl: Kubectl) -> None:
    odd = pod("p")
    odd["spec"]["containers"][0]["env"] = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    done = kubectl.run("create -f -", stdin=manifest(odd))
    assert (done.code, done.out) == (0, "pod/p created\n")
    assert done.err == (
        'Warning: spec.containers[0].env[1]: hides previous definition of "A", '
        "which may be dropped when using apply\n"
    )
    assert kubectl.run("get endpoints").err.startswith(
        "Warning: v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice\n"
    )


def test_a_webhook_that_nobody_would_call_is_refused_with_what_to_do(
    kubectl: Kubectl, namespace: str
) -> None:
    hook: Any = {
        "kind": "ValidatingWebhookConfiguration",
        "apiVersion": "admissionregistration.k8s.io/v1",
        "metadata": {"name": namespace},
        "webhooks": [
            {
                "name": "check.example.com",
                "clientConfig": {"url": "https://127.0.0.1:1/check"},
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }
    why = "fathom does not call webhooks: it accepts what they would refuse or change"
    how = 'to store it all the same, set the annotation fathom.dev/accept-unenforced: "true"'
    assert kubectl.fails("apply -f -", stdin=manifest(hook)).endswith(f"is forbidden: {why}; {how}")
    hook["metadata"]["annotations"] = {"fathom.dev/accept-unenforced": "true"}
    done = kubectl.run("apply -f -", stdin=manifest(hook))
    named = f"validatingwebhookconfiguration.admissionregistration.k8s.io/{namespace}"
    assert (done.code, done.err, done.out) == (
        0,
        f"Warning: webhooks: kept, but {why}\n",
        f"{named} created\n",
    )
    assert "accept-unenforced" in kubectl.fails(f"annotate {named} fathom.dev/accept-unenforced-")
    assert kubectl.run(f"delete {named}").code == 0


def test_a_pod_that_names_a_node_without_room_is_refused(
    kubectl: Kubectl, server: Server, node_name: str
) -> None:
    room = {"cpu": "1", "memory": "1Gi", "pods": "10"}
    server.patch(f"/api/v1/nodes/{node_name}/status", {"status": {"capacity": room, "allocatable": room}})
    greedy = pod("greedy", node=node_name)
    greedy["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "64"}}
    assert kubectl.fails("create -f -", stdin=manifest(greedy)) == (
        'Error from server (Forbidden): error when creating "STDIN": pods "greedy" is forbidden: '
        f"node {node_name}: cpu: 64000m more do not fit: 0m of 1000m are taken"
    )


def test_raw_creation(kubectl: Kubectl, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    printed = kubectl.ok(f"create --raw {path} -f -", stdin=json.dumps(config_map("raw")))
    assert json.loads(printed)["metadata"]["name"] == "raw"


RBAC = "rbac.authorization.k8s.io"
GENERATED: list[tuple[str, str, str, Any]] = [
    ("cm c --from-literal=a=1", "configmap/c", "configmap c", {"data": {"a": "1"}}),
    ("secret generic s --from-literal=a=1", "secret/s", "secret s",
     {"type": "Opaque", "data": {"a": base64.b64encode(b"1").decode()}}),
    ("secret docker-registry r --docker-server=x --docker-username=u --docker-password=p", "secret/r",
     "secret r", {"type": "kubernetes.io/dockerconfigjson"}),
    ("deployment d --image=nginx --replicas=2 --port=80", "deployment.apps/d", "deploy d",
     {"spec": {"replicas": 2}}),
    ("service clusterip svc --tcp=80:8080", "service/svc", "svc svc", {"spec": {"type": "ClusterIP"}}),
    ("service nodeport np --tcp=80", "service/np", "svc np", {"spec": {"type": "NodePort"}}),
    ("service externalname en --external-name=example.com", "service/en", "svc en",
     {"spec": {"type": "ExternalName", "externalName": "example.com"}}),
    ("job j --image=busybox -- echo hi", "job.batch/j", "job j", {"spec": {"completions": 1}}),
    ("cronjob cj --image=busybox --schedule='*/5 * * * *'", "cronjob.batch/cj", "cj cj",
     {"spec": {"schedule": "*/5 * * * *"}}),
    ("quota q --hard=pods=3", "resourcequota/q", "quota q", {"spec": {"hard": {"pods": "3"}}}),
    ("sa robot", "serviceaccount/robot", "sa robot", {}),
    ("role reader --verb=get,list --resource=pods", "role.rbac.authorization.k8s.io/reader", "role reader",
     {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]}),
    ("rolebinding rb --role=reader --user=jane", "rolebinding.rbac.authorization.k8s.io/rb",
     "rolebinding rb", {"roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "reader"}}),
    ("pdb b --selector=app=web --min-available=1", "poddisruptionbudget.policy/b", "pdb b",
     {"spec": {"minAvailable": 1}}),
    ("ingress i --rule=a.example/*=svc:80", "ingress.networking.k8s.io/i", "ing i", {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "printed", "what", "holds"), GENERATED, ids=[made[1] for made in GENERATED]
)
def test_from_flags(kubectl: Kubectl, flags: str, printed: str, what: str, holds: Any) -> None:
    assert kubectl.ok(f"create {flags}") == f"{printed} created\n"
    assert within(holds, kubectl.json(f"get {what}"))
    assert kubectl.ok(f"delete {what}").endswith("deleted\n")


def within(part: Any, whole: Any) -> bool:
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(within(part[key], whole.get(key)) for key in part)
    return bool(part == whole)


def test_cluster_objects_from_flags(cluster: Kubectl, namespace: str) -> None:
    name = namespace
    made = (
        (f"ns {name}-b", f"namespace/{name}-b"),
        (f"clusterrole {name} --verb=get --resource=nodes", f"clusterrole.{RBAC}/{name}"),
        (f"clusterrolebinding {name} --clusterrole={name} --group=g", f"clusterrolebinding.{RBAC}/{name}"),
        (f"priorityclass {name} --value=7 --description=x", f"priorityclass.scheduling.k8s.io/{name}"),
    )
    for flags, printed in made:
        assert cluster.ok(f"create {flags}") == f"{printed} created\n"
    for flags, _ in reversed(made):
        kind, name = flags.split()[:2]
        cluster.ok(f"delete {kind} {name}")


def test_a_job_from_a_cron_job(kubectl: Kubectl) -> None:
    kubectl.ok("create cronjob tick --image=busybox --schedule='@daily'")
    assert kubectl.ok("create job once --from=cronjob/tick") == "job.batch/once created\n"
    owner = kubectl.json("get job once")["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("CronJob", "tick", True)


def test_run_makes_a_pod(kubectl: Kubectl) -> None:
    assert kubectl.ok("run p --image=nginx --labels=app=p --env=A=b --port=80") == "pod/p created\n"
    made = kubectl.json("get pod p")
    assert made["metadata"]["labels"] == {"app": "p"}
    assert made["spec"]["containers"][0]["env"] == [{"name": "A", "value": "b"}]
    printed = kubectl.ok("run q --image=nginx --dry-run=client -o name")
    assert printed == "pod/q\n"


def test_run_and_expose_at_once(kubectl: Kubectl) -> None:
    assert kubectl.ok("run p --image=nginx --port=80 --expose") == "service/p created\npod/p created\n"


def test_expose_takes_selector_and_ports_from_the_target(kubectl: Kubectl) -> None:
    kubectl.create(deployment("web"))
    assert kubectl.ok("expose deployment web --port=80 --target-port=8080") == "service/web exposed\n"
    spec = kubectl.json("get svc web")["spec"]
    assert spec["selector"] == {"app": "web"}
    assert spec["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 8080}]
    kubectl.create(pod("p", labels={"name": "p"}))
    assert kubectl.ok("expose pod p --port=9 --name=other") == "service/other exposed\n"
    said = kubectl.fails("expose deployment web --port=80")
    assert said == 'Error from server (AlreadyExists): services "web" already exists'


def test_autoscale(kubectl: Kubectl) -> None:
    kubectl.create(deployment("web"))
    printed = kubectl.ok("autoscale deployment web --min=2 --max=5 --cpu-percent=70")
    assert printed == "horizontalpodautoscaler.autoscaling/web autoscaled\n"
    spec = kubectl.json("get hpa web")["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (2, 5)
    assert spec["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    target = {"type": "Utilization", "averageUtilization": 70}
    assert spec["metrics"] == [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


def test_tokens_of_service_accounts(kubectl: Kubectl, namespace: str) -> None:
    kubectl.ok("create sa robot")
    token = kubectl.ok("create token robot --duration=1h").strip()
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims["sub"] == f"system:serviceaccount:{namespace}:robot"
    assert claims["exp"] - claims["iat"] == 3600
    said = kubectl.fails("create token none")
    assert said == 'error: failed to create token: serviceaccounts "none" not found'
