"""`kubectl get`: every way to print, to choose and to order."""

from __future__ import annotations

import json

import pytest
import yaml
from tests.clients.kubectl import Kubectl, rows, without_age
from tests.clients.objects import config_map, deployment, pod, service
from tests.clients.running import Server

pytestmark = pytest.mark.kubectl


@pytest.fixture
def shop(kubectl: Kubectl) -> Kubectl:
    """A namespace with something of several kinds in it."""
    web = pod("web-1", labels={"app": "web", "tier": "front"})
    kubectl.create(web, pod("db-1", labels={"app": "db"}), deployment("web", replicas=3), service("web"))
    return kubectl


def test_the_default_table_shows_what_a_person_looks_for(shop: Kubectl) -> None:
    pending = {"READY": "0/1", "STATUS": "Pending", "RESTARTS": "0"}
    assert without_age(shop.rows("get pods")) == [{"NAME": "db-1", **pending}, {"NAME": "web-1", **pending}]
    assert without_age(shop.rows("get deploy web")) == [
        {"NAME": "web", "READY": "0/3", "UP-TO-DATE": "0", "AVAILABLE": "0"}
    ]


def test_wide_adds_columns_at_the_end(shop: Kubectl) -> None:
    assert without_age(shop.rows("get pod web-1 -o wide")) == [
        {
            "NAME": "web-1",
            "READY": "0/1",
            "STATUS": "Pending",
            "RESTARTS": "0",
            "IP": "<none>",
            "NODE": "<none>",
            "NOMINATED NODE": "<none>",
            "READINESS GATES": "<none>",
        }
    ]
    wide = without_age(shop.rows("get deployment -o wide"))[0]
    assert {title: wide[title] for title in ("CONTAINERS", "IMAGES", "SELECTOR")} == {
        "CONTAINERS": "main",
        "IMAGES": "nginx:1.27",
        "SELECTOR": "app=web",
    }


def test_yaml_and_json_are_the_same_object(shop: Kubectl, namespace: str) -> None:
    obj = json.loads(shop.ok("get pod web-1 -o json"))
    assert yaml.safe_load(shop.ok("get pod web-1 -o yaml")) == obj
    assert (obj["apiVersion"], obj["kind"]) == ("v1", "Pod")
    meta = obj["metadata"]
    assert (meta["name"], meta["namespace"], meta["labels"]) == (
        "web-1",
        namespace,
        {"app": "web", "tier": "front"},
    )
    assert obj["spec"]["restartPolicy"] == "Always"
    assert obj["status"]["phase"] == "Pending"


def test_several_objects_come_as_a_list(shop: Kubectl) -> None:
    listed = shop.json("get pods")
    assert (listed["apiVersion"], listed["kind"], listed["metadata"]) == (
        "v1",
        "List",
        {"resourceVersion": ""},
    )
    assert [item["metadata"]["name"] for item in listed["items"]] == ["db-1", "web-1"]


@pytest.mark.parametrize(
    ("output", "printed"),
    [
        ("name", "pod/db-1\npod/web-1\n"),
        ("jsonpath={.items[*].metadata.name}", "db-1 web-1"),
        ('jsonpath={.items[?(@.metadata.labels.app=="db")].metadata.name}', "db-1"),
        ("jsonpath={range .items[*]}{.metadata.name}={.spec.containers[0].image};{end}",
         "db-1=nginx:1.27;web-1=nginx:1.27;"),
        ("custom-columns=NAME:.metadata.name,TIER:.metadata.labels.tier",
         "NAME    TIER\ndb-1    <none>\nweb-1   front\n"),
        ("go-template={{range .items}}{{.metadata.name}} {{end}}", "db-1 web-1 "),
    ],
)  # fmt: skip
def test_fields_can_be_picked_out(shop: Kubectl, output: str, printed: str) -> None:
    assert shop.ok("get pods", "-o", output) == printed


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("-l app=web", ["web-1"]),
        ("-l app!=web", ["db-1"]),
        ("-l 'app in (web,db),tier'", ["web-1"]),
        ("-l '!tier'", ["db-1"]),
        ("-l 'app notin (db)'", ["web-1"]),
        ("--field-selector metadata.name=db-1", ["db-1"]),
        ("--field-selector status.phase=Pending,spec.nodeName=", ["db-1", "web-1"]),
        ("--field-selector status.phase!=Pending", []),
        ("-l app=web --field-selector spec.restartPolicy=Always", ["web-1"]),
    ],
)
def test_selectors_choose(shop: Kubectl, selector: str, names: list[str]) -> None:
    listed = shop.json(f"get pods {selector}")
    assert [item["metadata"]["name"] for item in listed["items"]] == names


def test_nothing_found_is_said_and_no_error(shop: Kubectl, namespace: str) -> None:
    done = shop.run("get pods -l app=none")
    assert (done.code, done.out, done.err) == (0, "", f"No resources found in {namespace} namespace.\n")
    done = shop.run("get pods -A -l app=none")
    assert (done.code, done.out, done.err) == (0, "", "No resources found\n")


def test_labels_can_be_shown_as_columns(shop: Kubectl) -> None:
    shown = [row["LABELS"] for row in shop.rows("get pods --show-labels")]
    assert shown == ["app=db", "app=web,tier=front"]
    assert [(row["APP"], row["TIER"]) for row in shop.rows("get pods -L app,tier")] == [
        ("db", ""),
        ("web", "front"),
    ]


def test_no_headers_and_all_namespaces(shop: Kubectl, namespace: str) -> None:
    assert "NAME" not in shop.ok("get pods --no-headers")
    mine = [row for row in shop.rows("get pods -A") if row["NAMESPACE"] == namespace]
    assert [row["NAME"] for row in mine] == ["db-1", "web-1"]


def test_sorting_is_by_any_field(kubectl: Kubectl) -> None:
    kubectl.create(config_map("a", rank="2"), config_map("b", rank="3"), config_map("c", rank="1"))
    assert [row["NAME"] for row in kubectl.rows("get cm --sort-by=.data.rank")] == ["c", "a", "b"]
    assert [row["NAME"] for row in kubectl.rows("get cm --sort-by={.metadata.name}")] == ["a", "b", "c"]
    by_age = [row["NAME"] for row in kubectl.rows("get cm --sort-by=.metadata.resourceVersion")]
    assert by_age == ["a", "b", "c"]


def test_a_list_in_small_chunks_is_the_whole_list(kubectl: Kubectl, server: Server, namespace: str) -> None:
    kubectl.create(*(config_map(f"cm-{number:02}") for number in range(11)))
    names = [row["NAME"] for row in kubectl.rows("get cm --chunk-size=3")]
    assert names == [f"cm-{number:02}" for number in range(11)]
    page = server.request("GET", f"/api/v1/namespaces/{namespace}/configmaps?limit=3")
    assert page["metadata"]["remainingItemCount"] == 8


def test_several_kinds_and_short_names_in_one_command(shop: Kubectl) -> None:
    printed = shop.ok("get po,svc,deploy").split("\n\n")
    assert [[row["NAME"] for row in rows(table)] for table in printed] == [
        ["pod/db-1", "pod/web-1"],
        ["service/web"],
        ["deployment.apps/web"],
    ]
    assert shop.ok("get deploy/web svc/web -o name") == "deployment.apps/web\nservice/web\n"
    assert shop.ok("get deployments.v1.apps -o name") == "deployment.apps/web\n"


def test_get_all_is_the_category(shop: Kubectl) -> None:
    assert shop.ok("get all -o name").split() == [
        "pod/db-1",
        "pod/web-1",
        "service/web",
        "deployment.apps/web",
    ]


def test_a_service_table(shop: Kubectl) -> None:
    (row,) = without_age(shop.rows("get svc web -o wide"))
    row.pop("CLUSTER-IP")
    assert row == {
        "NAME": "web",
        "TYPE": "ClusterIP",
        "EXTERNAL-IP": "<none>",
        "PORT(S)": "80/TCP",
        "SELECTOR": "app=web",
    }


def test_a_pod_table_follows_its_status(kubectl: Kubectl, server: Server, namespace: str) -> None:
    kubectl.create(pod("p", node="somewhere"))
    path = f"/api/v1/namespaces/{namespace}/pods/p"
    waiting = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 4, "ready": False}
    started = {"state": {"running": {"startedAt": "2024-01-01T00:00:00Z"}}, "restartCount": 0, "ready": True}
    for container, shown in ((waiting, ("0/1", "CrashLoopBackOff", "4")), (started, ("1/1", "Running", "0"))):
        statuses = [{"name": "main", "image": "i", "imageID": "", **container}]
        body = {"status": {"phase": "Running", "containerStatuses": statuses}}
        server.patch(f"{path}/status", body)
        (row,) = kubectl.rows("get pod p")
        assert (row["READY"], row["STATUS"], row["RESTARTS"]) == shown
    server.patch(path, {"metadata": {"finalizers": ["example.com/held"]}})
    kubectl.ok("delete pod p --wait=false")
    assert kubectl.rows("get pod p")[0]["STATUS"] == "Terminating"
    server.patch(path, {"metadata": {"finalizers": None}})


def test_a_node_table_follows_its_conditions(cluster: Kubectl, server: Server, node_name: str) -> None:
    cluster.ok(f"label node {node_name} node-role.kubernetes.io/worker=")
    info = dict.fromkeys(
        ("machineID", "systemUUID", "bootID", "kubeProxyVersion", "operatingSystem", "architecture"), ""
    )
    info |= {"kubeletVersion": "v1.2.3", "osImage": "Debian", "kernelVersion": "6.1"}
    info["containerRuntimeVersion"] = "fathom://1"
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "addresses": [{"type": "InternalIP", "address": "10.0.0.7"}],
        "nodeInfo": info,
    }
    server.patch(f"/api/v1/nodes/{node_name}/status", {"status": status})
    assert without_age(cluster.rows(f"get node {node_name} -o wide")) == [
        {
            "NAME": node_name,
            "STATUS": "Ready",
            "ROLES": "worker",
            "VERSION": "v1.2.3",
            "INTERNAL-IP": "10.0.0.7",
            "EXTERNAL-IP": "<none>",
            "OS-IMAGE": "Debian",
            "KERNEL-VERSION": "6.1",
            "CONTAINER-RUNTIME": "fathom://1",
        }
    ]
    cluster.ok(f"cordon {node_name}")
    assert cluster.rows(f"get no {node_name}")[0]["STATUS"] == "Ready,SchedulingDisabled"


def test_the_scale_of_a_deployment_has_its_own_table(shop: Kubectl) -> None:
    assert without_age(shop.rows("get deploy web --subresource=scale")) == [
        {"NAME": "web", "DESIRED": "3", "AVAILABLE": "0"}
    ]
    scale = shop.json("get deploy web --subresource=scale")
    assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {"replicas": 3})
    assert scale["status"] == {"replicas": 0, "selector": "app=web"}
