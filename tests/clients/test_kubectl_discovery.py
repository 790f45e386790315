"""What there is and what it means: api-resources, api-versions, explain, version, raw paths."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.clients.kubectl import Kubectl
from tests.clients.objects import config_map
from tests.clients.running import Server

pytestmark = pytest.mark.kubectl


def test_api_resources(cluster: Kubectl) -> None:
    listed = {(row["NAME"], row["APIVERSION"]): row for row in cluster.rows("api-resources")}
    assert listed["pods", "v1"] == {
        "NAME": "pods",
        "SHORTNAMES": "po",
        "APIVERSION": "v1",
        "NAMESPACED": "true",
        "KIND": "Pod",
    }
    assert listed["nodes", "v1"]["NAMESPACED"] == "false"
    assert listed["customresourcedefinitions", "apiextensions.k8s.io/v1"]["SHORTNAMES"] == "crd,crds"
    core = {"configmaps", "endpoints", "events", "limitranges", "namespaces", "nodes", "pods"}
    core |= {"persistentvolumeclaims", "persistentvolumes", "podtemplates", "replicationcontrollers"}
    core |= {"resourcequotas", "secrets", "serviceaccounts", "services"}
    assert {name for name, version in listed if version == "v1"} >= core


def test_api_resources_can_be_narrowed(cluster: Kubectl) -> None:
    names = cluster.ok("api-resources --api-group=apps -o name").split()
    assert sorted(names) == [
        "controllerrevisions.apps",
        "daemonsets.apps",
        "deployments.apps",
        "replicasets.apps",
        "statefulsets.apps",
    ]
    assert "nodes" not in cluster.ok("api-resources --namespaced=true -o name").split()
    assert "selfsubjectreviews.authentication.k8s.io" not in cluster.ok("api-resources --verbs=list -o name")
    wide = {row["NAME"]: row for row in cluster.rows("api-resources --api-group=apps -o wide")}
    assert wide["deployments"]["VERBS"] == "create,delete,deletecollection,get,list,patch,update,watch"
    assert wide["deployments"]["CATEGORIES"] == "all"


def test_api_versions(cluster: Kubectl) -> None:
    versions = cluster.ok("api-versions").split()
    assert versions == sorted(versions)
    assert {"v1", "apps/v1", "batch/v1", "autoscaling/v1", "autoscaling/v2", "policy/v1"} <= set(versions)


def test_without_aggregated_discovery_the_answer_is_the_same(cluster: Kubectl, server: Server) -> None:
    """Clients before 1.26 ask group by group."""
    groups = server.request("GET", "/apis")["groups"]
    preferred = [group["preferredVersion"]["groupVersion"] for group in groups]
    listed = [server.request("GET", f"/apis/{version}") for version in preferred]
    asked = {
        (resource["name"], found["groupVersion"])
        for found in listed
        for resource in found["resources"]
        if "/" not in resource["name"]
    }
    shown = {(row["NAME"], row["APIVERSION"]) for row in cluster.rows("api-resources")}
    assert asked == {(name, version) for name, version in shown if "/" in version}


def test_a_fresh_cache_and_a_used_one_say_the_same(kubectl: Kubectl, tmp_path: Path) -> None:
    fresh = Kubectl(kubectl.binary, kubectl.kubeconfig, tmp_path)
    first = fresh.ok("api-resources")
    assert list(tmp_path.glob(".kube/cache/discovery/*"))
    assert fresh.ok("api-resources --cached") == first


def test_version_and_cluster_info(cluster: Kubectl, server: Server) -> None:
    version = json.loads(cluster.run("version -o json").out)["serverVersion"]
    assert version["major"] == "1"
    assert version["gitVersion"].startswith(f"v1.{version['minor']}.")
    info = cluster.with_environment(NO_COLOR="1").ok("cluster-info")
    assert f"is running at {server.url}" in info
    assert cluster.ok("config current-context") == "fathom\n"
    assert (
        json.loads(cluster.ok("config view -o json --minify"))["clusters"][0]["cluster"]["server"]
        == server.url
    )


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/healthz/ping"])
def test_health(cluster: Kubectl, path: str) -> None:
    assert cluster.ok(f"get --raw {path}") == "ok"


def test_raw_paths(cluster: Kubectl, namespace: str) -> None:
    verbose = cluster.ok("get --raw /readyz?verbose").splitlines()
    assert "[+]ping ok" in verbose
    assert verbose[-1] == "readyz check passed"
    assert "apiserver_request_total" in cluster.ok("get --raw /metrics")
    paths = json.loads(cluster.ok("get --raw /"))["paths"]
    assert {"/api", "/apis", "/apis/apps", "/apis/apps/v1", "/healthz", "/openapi/v3", "/version"} <= set(
        paths
    )
    openapi = json.loads(cluster.ok("get --raw /openapi/v3"))["paths"]
    document = json.loads(cluster.ok("get --raw", openapi["apis/apps/v1"]["serverRelativeURL"]))
    assert "io.k8s.api.apps.v1.Deployment" in document["components"]["schemas"]
    listed = json.loads(cluster.ok(f"get --raw /api/v1/namespaces/{namespace}/configmaps"))
    assert (listed["kind"], listed["items"]) == ("ConfigMapList", [])
    for path in ("/nosuch", "/apis/nosuch", "/apis/apps/v9", "/api/v1/nosuch"):
        assert cluster.fails(f"get --raw {path}") == (
            "Error from server (NotFound): the server could not find the requested resource"
        )


def test_raw_writes(kubectl: Kubectl, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    kubectl.ok(f"create --raw {path} -f -", stdin=json.dumps(config_map("c")))
    kubectl.ok(f"replace --raw {path}/c -f -", stdin=json.dumps(config_map("c", a="1")))
    assert kubectl.value("get cm c", ".data.a") == "1"
    gone = json.loads(kubectl.ok(f"delete --raw {path}/c"))
    assert (gone["kind"], gone["status"]) == ("Status", "Success")


def test_explain_a_kind(cluster: Kubectl) -> None:
    text = cluster.ok("explain deployment")
    assert text.startswith("GROUP:      apps\nKIND:       Deployment\nVERSION:    v1\n\nDESCRIPTION:\n")
    assert "\nFIELDS:\n" in text
    assert "  metadata\t<ObjectMeta>\n" in text


def test_explain_a_field_and_what_is_below_it(cluster: Kubectl) -> None:
    text = cluster.ok("explain pod.spec.containers.resources.limits")
    assert "FIELD: limits <map[string]Quantity>" in text
    text = cluster.ok("explain deploy.spec.strategy --recursive")
    assert "FIELDS:\n  rollingUpdate\t<RollingUpdateDeployment>\n    maxSurge\t<IntOrString>\n" in text
    assert "  containers\t<[]Container> -required-\n" in cluster.ok("explain pod.spec")


KINDS = """cm svc node job cj sts ds rs pdb hpa ing netpol crd lease role clusterrolebinding pvc sc pc csr
endpointslice quota"""


@pytest.mark.parametrize("name", KINDS.split())
def test_explain_every_group(cluster: Kubectl, name: str) -> None:
    assert "\nFIELDS:\n" in cluster.ok(f"explain {name}")


def test_explain_another_version(cluster: Kubectl) -> None:
    text = cluster.ok("explain hpa.spec --api-version=autoscaling/v1")
    assert "  targetCPUUtilizationPercentage\t<integer>\n" in text


def test_explain_what_is_not_there(cluster: Kubectl) -> None:
    assert cluster.fails("explain pod.spec.nosuch") == 'error: field "nosuch" does not exist'
    assert cluster.fails("explain nosuch") == 'the server doesn\'t have a resource type "nosuch"'
