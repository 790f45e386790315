"""`kubectl rollout`. Nothing rolls out by itself here: the test plays the deployment controller."""

from __future__ import annotations

import re

import pytest
from tests.clients.kubectl import Kubectl
from tests.clients.objects import Obj, deployment, owned
from tests.clients.running import Server

pytestmark = pytest.mark.kubectl

REVISION = "deployment.kubernetes.io/revision"


class Controller:
    """What a deployment controller would write."""

    def __init__(self, server: Server, namespace: str) -> None:
        self._server = server
        self._base = f"/apis/apps/v1/namespaces/{namespace}"

    def deployment(self) -> Obj:
        found: Obj = self._server.request("GET", f"{self._base}/deployments/web")
        return found

    def replica_set(self, revision: int, *, cause: str = "") -> None:
        """The replica set of the template as it is now."""
        owner = self.deployment()
        template = owner["spec"]["template"]
        labels = {**template["metadata"]["labels"], "pod-template-hash": f"hash{revision}"}
        annotations = {REVISION: str(revision), **({"kubernetes.io/change-cause": cause} if cause else {})}
        spec = {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {**template, "metadata": {"labels": labels}},
        }
        meta = {"name": f"web-hash{revision}", "labels": labels, "annotations": annotations}
        made = owned({"metadata": meta, "spec": spec}, owner)
        self._server.request("POST", f"{self._base}/replicasets", made)
        self._server.patch(
            f"{self._base}/deployments/web", {"metadata": {"annotations": {REVISION: str(revision)}}}
        )

    def report(
        self, *, updated: int, available: int, total: int, progress: str = "NewReplicaSetAvailable"
    ) -> None:
        counts = {"replicas": total, "updatedReplicas": updated, "availableReplicas": available}
        condition = {
            "type": "Progressing",
            "status": "False" if progress == "ProgressDeadlineExceeded" else "True",
            "reason": progress,
        }
        status = {
            **counts,
            "readyReplicas": available,
            "observedGeneration": self.deployment()["metadata"]["generation"],
            "conditions": [condition],
        }
        self._server.patch(f"{self._base}/deployments/web/status", {"status": status})


@pytest.fixture
def controller(kubectl: Kubectl, server: Server, namespace: str) -> Controller:
    kubectl.create(deployment("web", image="nginx:1"))
    made = Controller(server, namespace)
    made.replica_set(1, cause="first")
    return made


def test_status_follows_until_it_is_done(kubectl: Kubectl, controller: Controller) -> None:
    with kubectl.started("rollout status deploy/web") as status:
        status.until("Waiting for deployment spec update to be observed...")
        controller.report(updated=1, available=1, total=2)
        status.until(
            'Waiting for deployment "web" rollout to finish: 1 out of 2 new replicas have been updated...'
        )
        controller.report(updated=2, available=1, total=3)
        status.until(
            'Waiting for deployment "web" rollout to finish: 1 old replicas are pending termination...'
        )
        controller.report(updated=2, available=1, total=2)
        status.until(
            'Waiting for deployment "web" rollout to finish: 1 of 2 updated replicas are available...'
        )
        controller.report(updated=2, available=2, total=2)
        done = status.ended()
    assert done.code == 0
    assert done.out.splitlines()[-1] == 'deployment "web" successfully rolled out'
    assert kubectl.ok("rollout status deploy/web") == 'deployment "web" successfully rolled out\n'


def test_status_fails_when_the_deadline_passed_or_nobody_waits(
    kubectl: Kubectl, controller: Controller
) -> None:
    controller.report(updated=1, available=1, total=2, progress="ProgressDeadlineExceeded")
    assert (
        kubectl.fails("rollout status deploy/web") == 'error: deployment "web" exceeded its progress deadline'
    )
    controller.report(updated=1, available=1, total=2)
    assert kubectl.run("rollout status deploy/web --watch=false").code == 0
    assert (
        kubectl.fails("rollout status deploy/web --timeout=1s")
        == "error: timed out waiting for the condition"
    )


def test_history_lists_the_revisions(kubectl: Kubectl, controller: Controller) -> None:
    kubectl.ok("set image deploy/web main=nginx:2")
    controller.replica_set(2, cause="second")
    lines = kubectl.ok("rollout history deploy/web").splitlines()
    assert [line.split() for line in lines if line] == [
        ["deployment.apps/web"],
        ["REVISION", "CHANGE-CAUSE"],
        ["1", "first"],
        ["2", "second"],
    ]
    one = kubectl.ok("rollout history deploy/web --revision=1")
    assert re.search(r"^deployment.apps/web with revision #1\n", one)
    assert re.search(r"Image:\s+nginx:1\n", one)
    assert (
        kubectl.fails("rollout history deploy/web --revision=9")
        == "error: unable to find the specified revision"
    )


def test_undo_goes_back_to_the_template_of_a_revision(kubectl: Kubectl, controller: Controller) -> None:
    image = ".spec.template.spec.containers[0].image"
    kubectl.ok("set image deploy/web main=nginx:2")
    controller.replica_set(2)
    kubectl.ok("set image deploy/web main=nginx:3")
    controller.replica_set(3)
    assert kubectl.ok("rollout undo deploy/web") == "deployment.apps/web rolled back\n"
    assert kubectl.value("get deploy web", image) == "nginx:2"
    assert kubectl.ok("rollout undo deploy/web --to-revision=1") == "deployment.apps/web rolled back\n"
    assert kubectl.value("get deploy web", image) == "nginx:1"
    assert controller.deployment()["spec"]["template"]["metadata"]["labels"] == {"app": "web"}
    said = kubectl.fails("rollout undo deploy/web --to-revision=8")
    assert said == "error: unable to find specified revision 8 in history"


def test_pause_resume_restart(kubectl: Kubectl, controller: Controller) -> None:
    assert kubectl.ok("rollout pause deploy/web") == "deployment.apps/web paused\n"
    said = kubectl.fails("rollout pause deploy/web")
    assert said == 'error: deployments.apps "web" is already paused'
    said = kubectl.fails("rollout undo deploy/web --to-revision=1")
    assert said.startswith("error: you cannot rollback a paused deployment; resume it first with")
    assert kubectl.ok("rollout resume deploy/web") == "deployment.apps/web resumed\n"
    assert kubectl.fails("rollout resume deploy/web") == 'error: deployments.apps "web" is not paused'
    before = controller.deployment()["metadata"]["generation"]
    assert kubectl.ok("rollout restart deploy/web") == "deployment.apps/web restarted\n"
    after = controller.deployment()
    assert after["metadata"]["generation"] == before + 1
    assert "kubectl.kubernetes.io/restartedAt" in after["spec"]["template"]["metadata"]["annotations"]


def test_stateful_and_daemon_sets(kubectl: Kubectl, server: Server, namespace: str) -> None:
    spec = {**deployment("db")["spec"], "serviceName": "db"}
    daemon = {key: spec[key] for key in ("selector", "template")}
    kubectl.create(
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": spec},
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "db"}, "spec": daemon},
    )
    base = f"/apis/apps/v1/namespaces/{namespace}"
    with kubectl.started("rollout status sts/db") as status:
        status.until("Waiting for statefulset spec update to be observed...")
        counts = dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas", "availableReplicas"), 2)
        revision = {"currentRevision": "a", "updateRevision": "a", "observedGeneration": 1}
        server.patch(f"{base}/statefulsets/db/status", {"status": {**counts, **revision}})
        status.until("partitioned roll out complete: 2 new pods have been updated...")
    counts = dict.fromkeys(("desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable"), 3)
    server.patch(f"{base}/daemonsets/db/status", {"status": {**counts, "observedGeneration": 1}})
    assert kubectl.ok("rollout status ds/db") == 'daemon set "db" successfully rolled out\n'
    data = {"spec": {"template": {**spec["template"], "$patch": "replace"}}}
    for number in (1, 2):
        owner = server.request("GET", f"{base}/daemonsets/db")
        meta = {"name": f"db-{number}", "labels": {"app": "db"}}
        server.request(
            "POST",
            f"{base}/controllerrevisions",
            owned({"metadata": meta, "data": data, "revision": number}, owner),
        )
    lines = kubectl.ok("rollout history ds/db").splitlines()
    assert [line.split() for line in lines if line][2:] == [["1", "<none>"], ["2", "<none>"]]
