"""The cells of the built-in kinds: what people read when they look at a cluster."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.test_tables import NOW, NOW_NS, cells, kind, named

from fathom.api.tables import row
from fathom.model.objects import Obj


def pod(*statuses: Obj, init: tuple[Obj, ...] = (), **status: Any) -> Obj:
    containers = [{"name": f"c{number}"} for number in range(len(statuses) or 1)]
    named_statuses = [{"name": f"c{number}", **one} for number, one in enumerate(statuses)]
    init_statuses = [{"name": f"i{number}", **one} for number, one in enumerate(init)]
    return named(
        "web",
        spec={"containers": containers, "initContainers": [{"name": f"i{n}"} for n in range(len(init))]},
        status={
            "phase": "Running",
            "containerStatuses": named_statuses,
            "initContainerStatuses": init_statuses,
            **status,
        },
    )


RUNNING: Obj = {"ready": True, "state": {"running": {}}, "restartCount": 0}
DONE: Obj = {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
FAILED: Obj = {"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}
LOOPING: Obj = {
    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    "restartCount": 4,
    "lastState": {"terminated": {"finishedAt": "2024-05-01T11:58:00Z"}},
}
INIT_EXIT = "Init:ExitCode:2"
READY = [{"type": "Ready", "status": "True"}]


@pytest.mark.parametrize(
    ("obj", "ready", "status", "restarts"),
    [
        (pod(phase="Pending"), "0/1", "Pending", "0"),
        (pod(RUNNING), "1/1", "Running", "0"),
        (pod(RUNNING, LOOPING), "1/2", "CrashLoopBackOff", "4 (2m ago)"),
        (pod(DONE, phase="Succeeded"), "0/1", "Completed", "0"),
        (pod(FAILED, phase="Failed"), "0/1", "Error", "0"),
        (pod(phase="Failed", reason="Evicted"), "0/1", "Evicted", "0"),
        (pod(DONE, RUNNING, conditions=READY), "1/2", "Running", "0"),
        (pod(DONE, RUNNING), "1/2", "NotReady", "0"),
        (pod(DONE, FAILED), "0/2", "Error", "0"),
        (pod({"state": {"terminated": {"exitCode": 137}}}), "0/1", "ExitCode:137", "0"),
        (pod({"state": {"terminated": {"exitCode": 137, "signal": 9}}}), "0/1", "Signal:9", "0"),
        (pod({"state": {"waiting": {"reason": "ImagePullBackOff"}}}), "0/1", "ImagePullBackOff", "0"),
        (pod(phase="Pending", init=({"state": {"running": {}}}, {})), "0/1", "Init:0/2", "0"),
        (pod(phase="Pending", init=(DONE, {"state": {"running": {}}})), "0/1", "Init:1/2", "0"),
        (pod(phase="Pending", init=(FAILED,)), "0/1", "Init:Error", "0"),
        (pod(phase="Pending", init=(LOOPING,)), "0/1", "Init:CrashLoopBackOff", "4 (2m ago)"),
        (
            pod(phase="Pending", init=({"state": {"terminated": {"exitCode": 2}}},)),
            "0/1",
            "Init:ExitCode:2",
            "0",
        ),
        (pod(RUNNING, init=(DONE,)), "1/1", "Running", "0"),
        (
            pod(
                phase="Pending",
                conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
            ),
            "0/1",
            "SchedulingGated",
            "0",
        ),
    ],
)
def test_a_pod_says_how_it_is(obj: Obj, ready: str, status: str, restarts: str) -> None:
    found = cells("pods", obj)
    assert (found["Ready"], found["Status"], found["Restarts"]) == (ready, status, restarts)


def test_a_sidecar_counts_among_the_containers() -> None:
    obj = pod(RUNNING, init=({"ready": True, "started": True, "state": {"running": {}}, "restartCount": 2},))
    obj["spec"]["initContainers"][0]["restartPolicy"] = "Always"
    found = cells("pods", obj)
    assert (found["Ready"], found["Status"], found["Restarts"]) == ("2/2", "Running", "2")


def test_a_pod_that_is_going_says_so() -> None:
    dying = pod(RUNNING)
    dying["metadata"]["deletionTimestamp"] = NOW
    assert cells("pods", dying)["Status"] == "Terminating"
    lost = pod(RUNNING, reason="NodeLost")
    lost["metadata"]["deletionTimestamp"] = NOW
    assert cells("pods", lost)["Status"] == "Unknown"
    over = pod(DONE, phase="Succeeded")
    over["metadata"]["deletionTimestamp"] = NOW
    assert cells("pods", over)["Status"] == "Completed"


def test_a_pod_that_is_over_may_be_hidden() -> None:
    pods = kind("pods")
    assert row(pods, pod(DONE, phase="Succeeded"), now_ns=NOW_NS)["conditions"] == [
        {
            "type": "Completed",
            "status": "True",
            "reason": "Succeeded",
            "message": "The pod has completed successfully.",
        }
    ]
    assert "conditions" not in row(pods, pod(RUNNING), now_ns=NOW_NS)


def test_a_pod_in_wide() -> None:
    obj = pod(RUNNING, podIPs=[{"ip": "10.0.0.1"}], nominatedNodeName="n2", conditions=READY)
    obj["spec"] |= {"nodeName": "n1", "readinessGates": [{"conditionType": "Ready"}, {"conditionType": "x"}]}
    wide = ("IP", "Node", "Nominated Node", "Readiness Gates")
    found = cells("pods", obj)
    assert [found[name] for name in wide] == ["10.0.0.1", "n1", "n2", "1/2"]
    assert [cells("pods", named("x"))[name] for name in wide] == ["<none>"] * 4


def test_a_node_says_how_it_is() -> None:
    obj = named(
        "n1",
        spec={"unschedulable": True},
        status={
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1", "kernelVersion": "6.1", "architecture": "arm64"},
        },
    )
    obj["metadata"]["labels"] = {"node-role.kubernetes.io/b": "", "kubernetes.io/role": "a", "other": "c"}
    assert cells("nodes", obj) == {
        "Name": "n1",
        "Status": "Ready,SchedulingDisabled",
        "Roles": "a,b",
        "Age": "5m",
        "Version": "v1",
        "Internal-IP": "10.0.0.1",
        "External-IP": "<none>",
        "OS-Image": "<unknown>",
        "Kernel-Version": "6.1 (arm64)",
        "Container-Runtime": "<unknown>",
    }
    assert cells("nodes", named("n"))["Status"] == "Unknown"
    sick = named("n", status={"conditions": [{"type": "Ready", "status": "Unknown"}]})
    assert cells("nodes", sick)["Status"] == "NotReady"


TEMPLATE: Obj = {"spec": {"containers": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:2"}]}}


def test_workloads() -> None:
    selector = {
        "matchLabels": {"app": "web"},
        "matchExpressions": [{"key": "t", "operator": "In", "values": ["b", "a"]}],
    }
    spec = {"replicas": 3, "selector": selector, "template": TEMPLATE}
    status = {"readyReplicas": 1, "updatedReplicas": 2, "replicas": 3}
    assert cells("deployments.apps", named("web", spec=spec, status=status)) == {
        "Name": "web",
        "Ready": "1/3",
        "Up-to-date": 2,
        "Available": 0,
        "Age": "5m",
        "Containers": "a,b",
        "Images": "x:1,y:2",
        "Selector": "app=web,t in (a,b)",
    }
    assert cells("replicasets.apps", named("web", spec=spec, status=status)) == {
        "Name": "web",
        "Desired": 3,
        "Current": 3,
        "Ready": 1,
        "Age": "5m",
        "Containers": "a,b",
        "Images": "x:1,y:2",
        "Selector": "app=web,t in (a,b)",
    }


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        ({"completions": 3}, {"succeeded": 1}, ("Running", "1/3", "")),
        ({"parallelism": 4}, {}, ("Running", "0/1 of 4", "")),
        ({}, {"startTime": "2024-05-01T11:59:00Z"}, ("Running", "0/1", "60s")),
        (
            {"completions": 1},
            {
                "succeeded": 1,
                "startTime": "2024-05-01T11:00:00Z",
                "completionTime": "2024-05-01T11:02:30Z",
                "conditions": [{"type": "Complete", "status": "True"}],
            },
            ("Complete", "1/1", "2m30s"),
        ),
        ({}, {"conditions": [{"type": "Failed", "status": "True"}]}, ("Failed", "0/1", "")),
        ({}, {"conditions": [{"type": "Suspended", "status": "True"}]}, ("Suspended", "0/1", "")),
    ],
)
def test_a_job_says_how_far_it_is(spec: Obj, status: Obj, expected: tuple[str, str, str]) -> None:
    found = cells("jobs.batch", named("j", spec=spec, status=status))
    assert (found["Status"], found["Completions"], found["Duration"]) == expected


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        ({"type": "ClusterIP", "clusterIPs": ["10.0.0.1"]}, {}, ("10.0.0.1", "<none>", "<none>")),
        ({"type": "ClusterIP", "clusterIP": "None"}, {}, ("None", "<none>", "<none>")),
        (
            {
                "type": "NodePort",
                "ports": [
                    {"port": 80, "nodePort": 30080, "protocol": "TCP"},
                    {"port": 53, "protocol": "UDP"},
                ],
            },
            {},
            ("<none>", "<none>", "80:30080/TCP,53/UDP"),
        ),
        ({"type": "LoadBalancer"}, {}, ("<none>", "<pending>", "<none>")),
        (
            {"type": "LoadBalancer", "externalIPs": ["9.9.9.9"]},
            {"loadBalancer": {"ingress": [{"hostname": "b"}, {"ip": "1.1.1.1"}]}},
            ("<none>", "1.1.1.1,b,9.9.9.9", "<none>"),
        ),
        ({"type": "ExternalName", "externalName": "x.org"}, {}, ("<none>", "x.org", "<none>")),
    ],
)
def test_a_service_says_where_it_is(spec: Obj, status: Obj, expected: tuple[str, str, str]) -> None:
    found = cells("services", named("s", spec=spec, status=status))
    assert (found["Cluster-IP"], found["External-IP"], found["Port(s)"]) == expected


def test_endpoints_are_listed_up_to_three() -> None:
    addresses = [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]
    ports = [{"port": 80}, {"port": 81}]
    obj = named("e", subsets=[{"addresses": addresses, "ports": ports}])
    assert cells("endpoints", obj)["Endpoints"] == "10.0.0.1:80,[fd00::1]:80,10.0.0.1:81 + 1 more..."
    assert cells("endpoints", named("e"))["Endpoints"] == "<none>"
    slice_ = named("s", ports=[{"port": 80}, {"name": "x"}, {}], endpoints=[{"addresses": ["a"]}])
    found = cells("endpointslices.discovery.k8s.io", slice_)
    assert (found["Ports"], found["Endpoints"]) == ("80,x,*", "a")


def test_an_event_reads_the_same_through_both_apis() -> None:
    core = named(
        "e",
        involvedObject={"kind": "Pod", "name": "web", "fieldPath": "spec.x"},
        message=" started \n",
        type="Normal",
        reason="Started",
        count=3,
        source={"component": "kubelet", "host": "n1"},
        firstTimestamp="2024-05-01T11:00:00Z",
        lastTimestamp="2024-05-01T11:59:00Z",
    )
    new = named(
        "e",
        regarding=core["involvedObject"],
        note=" started \n",
        type="Normal",
        reason="Started",
        deprecatedCount=3,
        deprecatedSource=core["source"],
        deprecatedFirstTimestamp="2024-05-01T11:00:00Z",
        deprecatedLastTimestamp="2024-05-01T11:59:00Z",
    )
    assert cells("events", core) == cells("events.events.k8s.io", new)
    assert cells("events", core) == {
        "Last Seen": "60s",
        "Type": "Normal",
        "Reason": "Started",
        "Object": "pod/web",
        "Subobject": "spec.x",
        "Source": "kubelet, n1",
        "Message": "started",
        "First Seen": "60m",
        "Count": 3,
        "Name": "e",
    }


def test_an_event_series_was_last_seen_when_it_was_last_observed() -> None:
    series = {"count": 9, "lastObservedTime": "2024-05-01T11:59:30.000000Z"}
    found = cells("events", named("e", eventTime="2024-05-01T11:50:00.000000Z", series=series))
    assert (found["Last Seen"], found["First Seen"], found["Count"]) == ("30s", "10m", 9)


def test_claims_and_volumes() -> None:
    spec = {"volumeName": "pv1", "storageClassName": "fast", "volumeMode": "Block"}
    status = {
        "phase": "Bound",
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadOnlyMany", "ReadWriteOnce"],
    }
    bound = named("c", kind="PersistentVolumeClaim", spec=spec, status=status)
    assert cells("persistentvolumeclaims", bound) == {
        "Name": "c",
        "Status": "Bound",
        "Volume": "pv1",
        "Capacity": "1Gi",
        "Access Modes": "RWO,ROX",
        "StorageClass": "fast",
        "VolumeAttributesClass": "<unset>",
        "Age": "5m",
        "VolumeMode": "Block",
    }
    waiting = named("c", kind="PersistentVolumeClaim", spec={"accessModes": ["ReadWriteOnce"]})
    found = cells("persistentvolumeclaims", waiting)
    assert (found["Capacity"], found["Access Modes"]) == ("", "")


def metrics(*specs: Obj, current: tuple[Obj, ...] = ()) -> str:
    obj = named("h", spec={"metrics": list(specs)}, status={"currentMetrics": list(current)})
    return str(cells("horizontalpodautoscalers.autoscaling", obj)["Targets"])


def test_an_autoscaler_says_where_it_is_and_wants_to_be() -> None:
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}}
    now = {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 50}}}
    queue = {"type": "External", "external": {"target": {"averageValue": "10"}}}
    assert metrics() == "<none>"
    assert metrics(cpu) == "cpu: <unknown>/80%"
    assert metrics(cpu, current=(now,)) == "cpu: 50%/80%"
    assert metrics(cpu, queue, cpu) == "cpu: <unknown>/80%, <unknown>/10 (avg) + 1 more..."


def test_rules_and_budgets() -> None:
    subjects = [
        {"kind": "User", "name": "jane"},
        {"kind": "Group", "name": "devs"},
        {"kind": "ServiceAccount", "namespace": "ns", "name": "bot"},
    ]
    binding = named("b", roleRef={"kind": "ClusterRole", "name": "view"}, subjects=subjects)
    found = cells("rolebindings.rbac.authorization.k8s.io", binding)
    assert list(found.values()) == ["b", "ClusterRole/view", "5m", "jane", "devs", "ns/bot"]
    budget = named("p", spec={"minAvailable": "50%"}, status={"disruptionsAllowed": 2})
    assert list(cells("poddisruptionbudgets.policy", budget).values()) == ["p", "50%", "N/A", 2, "5m"]
    status = {
        "hard": {"pods": "10", "limits.cpu": "4", "requests.cpu": "2"},
        "used": {"pods": "3", "limits.cpu": "1"},
    }
    assert list(cells("resourcequotas", named("q", status=status)).values()) == [
        "q",
        "pods: 3/10, requests.cpu: 0/2",
        "limits.cpu: 1/4",
        "5m",
    ]


def test_small_kinds() -> None:
    assert list(cells("leases.coordination.k8s.io", named("l", spec={"holderIdentity": "a"})).values()) == [
        "l",
        "a",
        "5m",
    ]
    assert cells("secrets", named("s", type="Opaque", data={"a": "", "b": ""}))["Data"] == 2
    definition = cells("customresourcedefinitions.apiextensions.k8s.io", named("x.y"))
    assert definition == {"Name": "x.y", "Created At": "2024-05-01T11:55:00Z"}
    owned = named("r", revision=3)
    owned["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "controller": True}
    ]
    assert cells("controllerrevisions.apps", owned)["Controller"] == "statefulset.apps/db"
    cron = named("c", spec={"suspend": True, "schedule": "@daily"}, status={"active": [{}]})
    found = cells("cronjobs.batch", cron)
    assert (found["Suspend"], found["Active"], found["Last Schedule"]) == ("True", 1, "<none>")
    default = named("fast")
    default["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
    assert cells("storageclasses.storage.k8s.io", default)["Name"] == "fast (default)"
    request = named(
        "r",
        spec={"expirationSeconds": 86400},
        status={"conditions": [{"type": "Approved"}], "certificate": "x"},
    )
    found = cells("certificatesigningrequests.certificates.k8s.io", request)
    assert (found["RequestedDuration"], found["Condition"]) == ("24h", "Approved,Issued")
