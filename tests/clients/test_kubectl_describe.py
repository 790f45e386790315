"""`kubectl describe`: the client puts it together from the object, its relations and its events."""

from __future__ import annotations

import re
from textwrap import dedent

import pytest
from tests.clients.kubectl import Kubectl
from tests.clients.objects import Obj, config_map, deployment, pod, replica_set, service
from tests.clients.running import Server

pytestmark = pytest.mark.kubectl

TIME = re.compile(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}")


def described(kubectl: Kubectl, what: str) -> str:
    """The text, without what the clock decides and without blanks at line ends."""
    text = TIME.sub("<time>", kubectl.ok(f"describe {what}"))
    return "\n".join(line.rstrip() for line in text.splitlines()).strip()


def event(namespace: str, about: Obj, reason: str, message: str, *, count: int = 1) -> Obj:
    reference = {"kind": about["kind"], "apiVersion": about["apiVersion"]}
    reference |= {field: about["metadata"][field] for field in ("name", "uid")}
    return {
        "metadata": {"name": f"{about['metadata']['name']}.{reason.lower()}"},
        "involvedObject": {**reference, "namespace": namespace},
        "reason": reason,
        "message": message,
        "type": "Normal",
        "count": count,
        "source": {"component": "tester"},
        "firstTimestamp": about["metadata"]["creationTimestamp"],
        "lastTimestamp": about["metadata"]["creationTimestamp"],
    }


def test_a_pod_with_its_events(kubectl: Kubectl, server: Server, namespace: str) -> None:
    made = pod("p", labels={"app": "web"})
    made["spec"]["containers"][0] |= {
        "ports": [{"containerPort": 80}],
        "env": [{"name": "A", "value": "b"}],
        "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m", "memory": "64Mi"}},
    }
    kubectl.create(made)
    obj = server.request("GET", f"/api/v1/namespaces/{namespace}/pods/p")
    told = event(namespace, obj, "Scheduled", "assigned to a node", count=3)
    server.request("POST", f"/api/v1/namespaces/{namespace}/events", told)
    text = described(kubectl, "pod p")
    head, _, events = text.partition("Events:\n")
    assert head == dedent(
        f"""\
        Name:             p
        Namespace:        {namespace}
        Priority:         0
        Service Account:  default
        Node:             <none>
        Labels:           app=web
        Annotations:      <none>
        Status:           Pending
        IP:
        IPs:              <none>
        Containers:
          main:
            Image:      nginx:1.27
            Port:       80/TCP
            Host Port:  0/TCP
            Limits:
              cpu:     200m
              memory:  64Mi
            Requests:
              cpu:     100m
              memory:  64Mi
            Environment:
              A:     b
            Mounts:  <none>
        Conditions:
          Type           Status
          Admitted       True
        Volumes:         <none>
        QoS Class:       Burstable
        Node-Selectors:  <none>
        Tolerations:     node.kubernetes.io/not-ready:NoExecute op=Exists for 300s
                         node.kubernetes.io/unreachable:NoExecute op=Exists for 300s
        """
    )
    titles, _, line = events.splitlines()
    assert titles.split() == ["Type", "Reason", "Age", "From", "Message"]
    assert re.fullmatch(r"Normal +Scheduled +\d+s \(x3 over \d+s\) +tester +assigned to a node", line.strip())


def test_a_deployment_with_its_replica_sets(kubectl: Kubectl, server: Server, namespace: str) -> None:
    kubectl.create(deployment("web", replicas=2))
    base = f"/apis/apps/v1/namespaces/{namespace}"
    owner = server.request("GET", f"{base}/deployments/web")
    made = replica_set("web", replicas=2, owner=owner)
    made["metadata"] |= {"name": "web-1", "annotations": {"deployment.kubernetes.io/revision": "1"}}
    kubectl.create(made)
    condition = {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": ""}
    counts = {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2}
    status = {"status": {**counts, "observedGeneration": 1, "conditions": [condition]}}
    server.patch(f"{base}/deployments/web/status", status)
    server.patch(f"{base}/replicasets/web-1/status", {"status": {"replicas": 2}})
    assert described(kubectl, "deployment web") == dedent(
        f"""\
        Name:                   web
        Namespace:              {namespace}
        CreationTimestamp:      <time>
        Labels:                 app=web
        Annotations:            <none>
        Selector:               app=web
        Replicas:               2 desired | 2 updated | 2 total | 2 available | 0 unavailable
        StrategyType:           RollingUpdate
        MinReadySeconds:        0
        RollingUpdateStrategy:  25% max unavailable, 25% max surge
        Pod Template:
          Labels:  app=web
          Containers:
           main:
            Image:         nginx:1.27
            Port:          <none>
            Host Port:     <none>
            Environment:   <none>
            Mounts:        <none>
          Volumes:         <none>
          Node-Selectors:  <none>
          Tolerations:     <none>
        Conditions:
          Type           Status  Reason
          ----           ------  ------
          Available      True    MinimumReplicasAvailable
        OldReplicaSets:  <none>
        NewReplicaSet:   web-1 (2/2 replicas created)
        Events:          <none>"""
    )


def test_a_node_with_its_pods_and_lease(
    kubectl: Kubectl, cluster: Kubectl, server: Server, node_name: str
) -> None:
    bound = pod("bound", node=node_name)
    bound["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "500m", "memory": "1Gi"}}
    kubectl.create(bound)
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    server.patch(f"/api/v1/nodes/{node_name}/status", {"status": {"capacity": room, "allocatable": room}})
    lease = {"metadata": {"name": node_name}, "spec": {"holderIdentity": node_name}}
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    server.request("POST", leases, lease)
    cluster.ok(f"taint node {node_name} dedicated=gpu:NoSchedule")
    text = described(cluster, f"node {node_name}")
    server.request("DELETE", f"{leases}/{node_name}")
    lines = [line.split() for line in text.splitlines()]
    assert ["Taints:", "dedicated=gpu:NoSchedule"] in lines
    assert ["HolderIdentity:", node_name] in lines
    assert ["cpu:", "4"] in lines
    assert ["Non-terminated", "Pods:", "(1", "in", "total)"] in lines
    assert ["cpu", "500m", "(12%)", "0", "(0%)"] in lines
    assert ["memory", "1Gi", "(12%)", "0", "(0%)"] in lines


def test_a_service_and_its_endpoints(kubectl: Kubectl, server: Server, namespace: str) -> None:
    kubectl.create(service("web"))
    slice_ = {
        "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.1.2.3"], "conditions": {"ready": True}}],
        "ports": [{"name": "", "port": 80, "protocol": "TCP"}],
    }
    server.request("POST", f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices", slice_)
    lines = {
        line.partition(":")[0]: line.partition(":")[2].strip()
        for line in described(kubectl, "svc web").splitlines()
    }
    lines.pop("IP")
    lines.pop("IPs")
    assert lines == {
        "Name": "web",
        "Namespace": namespace,
        "Labels": "<none>",
        "Annotations": "<none>",
        "Selector": "app=web",
        "Type": "ClusterIP",
        "IP Family Policy": "SingleStack",
        "IP Families": "IPv4",
        "Port": "<unset>  80/TCP",
        "TargetPort": "80/TCP",
        "Endpoints": "10.1.2.3:80",
        "Session Affinity": "None",
        "Internal Traffic Policy": "Cluster",
        "Events": "<none>",
    }


def test_a_namespace_with_quota_and_limits(kubectl: Kubectl, cluster: Kubectl, namespace: str) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}}
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}}
    container = {"type": "Container", "default": {"cpu": "200m"}, "defaultRequest": {"cpu": "100m"}}
    kubectl.create(
        {**quota, "spec": {"hard": {"pods": "5", "requests.cpu": "2"}}},
        {**limits, "spec": {"limits": [container]}},
    )
    kubectl.create(pod("p"))
    assert described(cluster, f"ns {namespace}") == dedent(
        f"""\
        Name:         {namespace}
        Labels:       kubernetes.io/metadata.name={namespace}
        Annotations:  <none>
        Status:       Active

        Resource Quotas
          Name:         q
          Resource      Used  Hard
          --------      ---   ---
          pods          1     5
          requests.cpu  100m  2

        Resource Limits
         Type       Resource  Min  Max  Default Request  Default Limit  Max Limit/Request Ratio
         ----       --------  ---  ---  ---------------  -------------  -----------------------
         Container  cpu       -    -    100m             200m           -"""
    )
    assert described(kubectl, "quota q") == dedent(
        f"""\
        Name:         q
        Namespace:    {namespace}
        Resource      Used  Hard
        --------      ----  ----
        pods          1     5
        requests.cpu  100m  2"""
    )


def test_config_maps_show_their_data_and_secrets_do_not(kubectl: Kubectl, namespace: str) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "stringData": {"key": "hunter2"},
    }
    kubectl.create(config_map("c", a="1"), secret)
    assert described(kubectl, "cm c") == dedent(
        f"""\
        Name:         c
        Namespace:    {namespace}
        Labels:       <none>
        Annotations:  <none>

        Data
        ====
        a:
        ----
        1


        BinaryData
        ====

        Events:  <none>"""
    )
    assert described(kubectl, "secret s") == dedent(
        f"""\
        Name:         s
        Namespace:    {namespace}
        Labels:       <none>
        Annotations:  <none>

        Type:  Opaque

        Data
        ====
        key:  7 bytes"""
    )


def test_a_job_and_a_cron_job(kubectl: Kubectl, namespace: str) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}}
    spec = {"schedule": "0 * * * *", "jobTemplate": {"spec": {"template": template}}}
    kubectl.create(
        job, {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "cj"}, "spec": spec}
    )
    uid = kubectl.value("get job j", ".metadata.uid")
    text = described(kubectl, "job j")
    assert f"Selector:         batch.kubernetes.io/controller-uid={uid}" in text
    assert "Parallelism:      1\nCompletions:      1\nCompletion Mode:  NonIndexed" in text
    assert "Pods Statuses:    0 Active" in text
    text = described(kubectl, "cj cj")
    assert "Schedule:                      0 * * * *\nConcurrency Policy:            Allow" in text


@pytest.mark.parametrize(
    "what",
    ["clusterrole/view", "clusterrolebinding/cluster-admin", "ns/default", "serviceaccount/default",
     "deploy,sts,ds,rs,rc,ing,hpa,pdb,pvc,netpol,limits,endpointslices"],
)  # fmt: skip
def test_every_describer_finds_what_it_asks_for(kubectl: Kubectl, what: str) -> None:
    done = kubectl.run(f"describe {what}")
    assert done.code == 0
    assert "Error" not in done.out + done.err


def test_a_name_prefix_is_enough(kubectl: Kubectl) -> None:
    kubectl.create(config_map("prefix-one"), config_map("prefix-two"))
    assert re.findall(r"^Name: +(\S+)$", kubectl.ok("describe cm prefix"), re.MULTILINE) == [
        "prefix-one",
        "prefix-two",
    ]


def test_what_is_not_there(kubectl: Kubectl) -> None:
    assert kubectl.fails("describe pod none") == 'Error from server (NotFound): pods "none" not found'
