"""Workloads as an operator meets them: kubectl on a running cluster, real processes behind it."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter

from tests.clients.kubectl import Kubectl, eventually
from tests.cluster.living import PROGRAM, Cluster, Obj
from tests.cluster.programs import deployment, job, own, pod

READY_IN = "--timeout=40s"


def apart(name: str) -> Obj:
    return {
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": name}},
    }  # fmt: skip


def fetch(address: str) -> str:
    try:
        with urllib.request.urlopen(f"http://{address}/", timeout=5) as answer:
            return str(answer.read().decode())
    except OSError as error:
        raise AssertionError(f"{address}: {error}") from error


def reasons(kubectl: Kubectl, kind: str, name: str) -> set[tuple[str, str]]:
    about = f"involvedObject.kind={kind},involvedObject.name={name}"
    events = kubectl.json(f"get events --field-selector {about}")["items"]
    return {(event["reason"], event["message"]) for event in events}


def notes(kubectl: Kubectl, name: str) -> set[str]:
    return set(kubectl.json(f"get deployment {name}")["metadata"]["annotations"])


def test_a_rollout_is_made_followed_undone_and_told_of(kubectl: Kubectl) -> None:
    kubectl.create(deployment("web"))
    kubectl.ok(f"rollout status deployment/web {READY_IN}")
    first = kubectl.rows("get replicasets")[0]["NAME"]
    kubectl.ok("set image deployment/web main=program:2")
    kubectl.ok(f"rollout status deployment/web {READY_IN}")
    revisions = [
        line.split() for line in kubectl.ok("rollout history deployment/web").splitlines()[2:] if line
    ]
    assert revisions == [["1", "<none>"], ["2", "<none>"]]
    kubectl.ok("rollout undo deployment/web")
    kubectl.ok(f"rollout status deployment/web {READY_IN}")
    assert kubectl.value("get deployment web", ".spec.template.spec.containers[0].image") == "program:1"
    sizes = {row["NAME"]: row["DESIRED"] for row in kubectl.rows("get replicasets")}
    assert sizes.pop(first) == "2"
    assert list(sizes.values()) == ["0"]
    told = ("ScalingReplicaSet", f"Scaled up replica set {first} from 0 to 2")
    eventually(lambda: told in reasons(kubectl, "Deployment", "web"))
    eventually(
        lambda: ("SuccessfulCreate", f"Created pod: {first}-0") in reasons(kubectl, "ReplicaSet", first)
    )


def test_a_paused_rollout_waits_but_is_scaled(kubectl: Kubectl) -> None:
    kubectl.create(deployment("web", replicas=1))
    kubectl.ok(f"rollout status deployment/web {READY_IN}")
    kubectl.ok("rollout pause deployment/web")
    kubectl.ok("set image deployment/web main=program:2")
    kubectl.ok("scale deployment/web --replicas=2")
    kubectl.ok(f"wait deployment/web --for=jsonpath={{.status.readyReplicas}}=2 {READY_IN}")
    assert [row["DESIRED"] for row in kubectl.rows("get replicasets")] == ["2"]
    kubectl.ok("rollout resume deployment/web")
    kubectl.ok(f"rollout status deployment/web {READY_IN}")
    assert sorted(row["DESIRED"] for row in kubectl.rows("get replicasets")) == ["0", "2"]


def test_a_rollout_without_progress_says_so_and_goes_back_if_it_is_to(kubectl: Kubectl) -> None:
    for name in ("stays", "returns"):
        kubectl.create(deployment(name, replicas=1, progressDeadlineSeconds=3))
    kubectl.ok("annotate deployment returns fathom.dev/auto-revert=true")
    kubectl.ok(f"wait deployment --all --for=condition=Available {READY_IN}")
    probe = {"name": "main", "readinessProbe": {"exec": {"command": ["false"]}}}
    patch = json.dumps({"spec": {"template": {"spec": {"containers": [probe]}}}})
    for name in ("stays", "returns"):
        kubectl.ok(f"patch deployment {name}", "-p", patch)
    said = kubectl.fails("rollout status deployment/stays --timeout=20s")
    assert said == 'error: deployment "stays" exceeded its progress deadline'
    eventually(lambda: "fathom.dev/reverted-to" in notes(kubectl, "returns"))
    kubectl.ok(f"rollout status deployment/returns {READY_IN}")
    eventually(lambda: "DeploymentRollback" in {one for one, _ in reasons(kubectl, "Deployment", "returns")})


def test_recreate_never_runs_two_revisions_at_once(kubectl: Kubectl) -> None:
    kubectl.create(deployment("one", replicas=1, strategy={"type": "Recreate"}))
    kubectl.ok(f"rollout status deployment/one {READY_IN}")
    (old,) = kubectl.rows("get pods")
    with kubectl.started("get pods --watch --output-watch-events") as watch:
        watch.until(old["NAME"])
        kubectl.ok("set image deployment/one main=program:2")
        kubectl.ok(f"rollout status deployment/one {READY_IN}")
        lines = [line.split()[:2] for line in watch.so_far().splitlines()]
    added = [name for event, name in lines if event == "ADDED"]
    assert lines.index(["DELETED", old["NAME"]]) < lines.index(["ADDED", added[-1]])


def test_jobs_end_as_they_should(kubectl: Kubectl) -> None:
    kubectl.create(
        job("parallel", "echo $POD_NAME", parallelism=2, completions=3),
        job("indexed", "echo $JOB_COMPLETION_INDEX", completionMode="Indexed", parallelism=2, completions=2),
        job("fails", "exit 3", backoffLimit=0),
        job("late", "sleep 1000", activeDeadlineSeconds=2),
        job("forgotten", "true", ttlSecondsAfterFinished=1),
        job("waits", "true", suspend=True),
    )
    kubectl.ok(f"wait job/parallel job/indexed --for=condition=Complete {READY_IN}")
    assert kubectl.value("get job indexed", ".status.completedIndexes") == "0,1"
    assert kubectl.value("get job parallel", ".status.succeeded") == "3"
    kubectl.ok(f"wait job/fails job/late --for=condition=Failed {READY_IN}")
    why = [
        [one["reason"] for one in found["status"]["conditions"] if one["type"] == "Failed"]
        for found in kubectl.json("get jobs fails late")["items"]
    ]
    assert why == [["BackoffLimitExceeded"], ["DeadlineExceeded"]]
    assert kubectl.value("get job waits", ".status.startTime") == ""
    kubectl.ok("patch job waits --type=merge", "-p", '{"spec":{"suspend":false}}')
    kubectl.ok(f"wait job/waits --for=condition=Complete {READY_IN}")
    kubectl.run(f"wait job/forgotten --for=delete {READY_IN}")
    assert sorted(kubectl.ok("logs -l batch.kubernetes.io/job-name=indexed").split()) == ["0", "1"]
    eventually(lambda: ("Completed", "Job completed") in reasons(kubectl, "Job", "waits"))


def test_an_autoscaler_scales_whatever_can_be_scaled_and_says_what_it_cannot(kubectl: Kubectl) -> None:
    replicas = {"type": "integer"}
    parts = {"size": replicas, "selector": {"type": "string"}}
    schema = {"type": "object", "properties": {
        "spec": {"type": "object", "properties": parts}, "status": {"type": "object", "properties": parts},
    }}  # fmt: skip
    scale = {
        "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size",
        "labelSelectorPath": ".status.selector",
    }  # fmt: skip
    version = {
        "name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": scale},
    }  # fmt: skip
    names = {"plural": "rings", "singular": "ring", "kind": "Ring"}
    kubectl.create({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "rings.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    })  # fmt: skip
    kubectl.ok(f"wait crd/rings.example.com --for=condition=Established {READY_IN}")
    kubectl.create(
        {"apiVersion": "example.com/v1", "kind": "Ring", "metadata": {"name": "big"}, "spec": {"size": 7}},
        *(
            {
                "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name},
                "spec": {
                    "scaleTargetRef": {"apiVersion": "example.com/v1", "kind": "Ring", "name": name},
                    "maxReplicas": 4,
                },
            }
            for name in ("big", "none")
        ),
    )  # fmt: skip
    eventually(lambda: kubectl.value("get ring big", ".spec.size") == "4")
    wrong = ("FailedGetScale", "Ring none does not exist or cannot be scaled")
    eventually(lambda: wrong in reasons(kubectl, "HorizontalPodAutoscaler", "none"))
    kubectl.run("delete crd rings.example.com")


def test_logs_are_read_as_kubectl_asks_for_them(kubectl: Kubectl) -> None:
    script = "for i in 1 2 3; do echo line $i; done; sleep 1; echo last; sleep 1000"
    kubectl.create(pod("talks", "sh", "-c", script), pod("dies", "sh", "-c", "echo words; exit 1"))
    kubectl.ok(f"wait pod/talks --for=condition=Ready {READY_IN}")
    with kubectl.started("logs -f talks") as follow:
        assert follow.lines(4) == ["line 1", "line 2", "line 3", "last"]
    assert kubectl.ok("logs talks --tail=2") == "line 3\nlast\n"
    assert kubectl.ok("logs talks -c main --since=1h --limit-bytes=6") == "line 1"
    eventually(lambda: kubectl.run("logs dies --previous").out == "words\n")
    waits = f"Back-off restarting failed container main in pod dies_{kubectl.namespace}("
    eventually(lambda: any(said.startswith(waits) for _, said in reasons(kubectl, "Pod", "dies")))
    assert "Failed" not in {reason for reason, _ in reasons(kubectl, "Pod", "dies")}, "it was started"
    assert "container nope is not valid for pod talks" in kubectl.fails("logs talks -c nope")


ASK = """
import json, os, ssl, urllib.request
place = "/var/run/secrets/kubernetes.io/serviceaccount"
where = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}"
namespace, token = (open(f"{place}/{name}").read() for name in ("namespace", "token"))
request = urllib.request.Request(
    f"{where}/api/v1/namespaces/{namespace}/pods", headers={"authorization": f"Bearer {token}"})
tls = ssl.create_default_context(cafile=f"{place}/ca.crt")
print([one["metadata"]["name"] for one in json.load(urllib.request.urlopen(request, context=tls))["items"]])
"""


def test_a_pod_speaks_to_the_server_as_its_account(cluster: Cluster, kubectl: Kubectl) -> None:
    kubectl.ok("create rolebinding sees --clusterrole=view", f"--serviceaccount={kubectl.namespace}:default")
    kubectl.create(
        pod("asks", "python3", "-c", ASK, restartPolicy="Never"),
        pod("mute", "ls", "/var/run/secrets", restartPolicy="Never", automountServiceAccountToken=False),
    )
    kubectl.ok(f"wait pod/asks --for=jsonpath={{.status.containerStatuses[0].state.terminated}} {READY_IN}")
    assert kubectl.ok("logs asks") == "['asks', 'mute']\n"
    kubectl.ok(f"wait pod/mute --for=jsonpath={{.status.phase}}=Failed {READY_IN}")


def test_connections_are_split_as_a_route_says_and_go_elsewhere_when_nobody_is_there(
    cluster: Cluster, kubectl: Kubectl
) -> None:
    ready = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}
    probe = {"readinessProbe": ready, "env": [{"name": "WORD", "value": "-"}]}
    service = {
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    }  # fmt: skip
    routes = [{"zone": "a", "weight": 3}, {"zone": "b", "weight": 1}]
    inner = {"topologySpreadConstraints": [apart("web")]}
    kubectl.create(
        service,
        deployment("web", "python3", "-c", PROGRAM, of=probe, inner=inner),
        own("TrafficRoute", "web", service="web", routes=routes),
    )  # fmt: skip
    kubectl.ok(f"rollout status deployment/web {READY_IN}")
    eventually(lambda: kubectl.value("get trafficroute web", ".status.observedGeneration") == "1")
    zones = {
        one["metadata"]["name"]: "b" if one["spec"]["nodeName"] == "node-2" else "a"
        for one in kubectl.json("get pods -l app=web")["items"]
    }
    assert sorted(zones.values()) == ["a", "b"]
    address = kubectl.value("get service web", ".spec.clusterIP")

    def answering(count: int) -> Counter[str]:
        return Counter(zones[fetch(address).split()[0]] for _ in range(count))

    eventually(lambda: answering(2).total() == 2)
    assert answering(40) == {"a": 30, "b": 10}
    kubectl.ok("patch trafficroute web --type=merge", "-p", '{"spec":{"routes":[{"zone":"b","weight":1}]}}')
    eventually(lambda: answering(10) == {"b": 10})


def test_a_sidecar_runs_beside_and_init_containers_before(kubectl: Kubectl) -> None:
    shared = {"volumeMounts": [{"name": "room", "mountPath": "/a/deep/room"}]}
    first = {
        "name": "first",
        "image": "x",
        "command": ["sh", "-c", "echo made > /a/deep/room/file"],
        **shared,
    }
    beside = {"name": "beside", "image": "x", "command": ["sleep", "1000"], "restartPolicy": "Always"}
    whole = pod("whole", "cat", "/a/deep/room/file", of=shared, restartPolicy="Never",
                initContainers=[first, beside], volumes=[{"name": "room", "emptyDir": {}}])  # fmt: skip
    kubectl.create(whole)
    kubectl.ok(f"wait pod/whole --for=jsonpath={{.status.phase}}=Succeeded {READY_IN}")
    assert kubectl.ok("logs whole -c main") == "made\n"
