"""Who may do what to an override, cell by cell, with kubectl and real credentials.

As in tests/security/test_override_matrix.py, the table is written by hand: it must not follow from the table
that the server follows. (Nodes and fathom's own accounts do not use kubectl: that table has them.)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
import yaml
from tests.clients.kubectl import As, Done, Kubectl, manifest
from tests.clients.objects import Obj
from tests.clients.test_kubectl_overrides import override

pytestmark = pytest.mark.kubectl

# Columns as in DEEDS. y: allowed. The author has written the override that is tried on; it needs approval.
#                 create drain approve extend end status finalizer
CELLS: dict[str, str] = {
    "viewer":        "  .     .      .      .     .    .       .",
    "editor":        "  .     .      .      .     .    .       .",
    "admin":         "  y     .      y      y     y    .       .",
    "author":        "  y     .      .      y     y    .       .",
    "cluster-admin": "  y     y      y      y     y    y       y",
    "bot":           "  y     .      .      y     y    .       .",
}  # fmt: skip
ROLES = {"viewer": "view", "editor": "edit", "admin": "admin", "author": "admin"}

Deed = Callable[[Kubectl, str, str], Done]  # Who, the namespace, the override.


def _patched(patch: Obj, *options: str) -> Deed:
    def deed(who: Kubectl, _: str, name: str) -> Done:
        words = " ".join(("patch scheduleroverride", name, *options, "--type=merge -p"))
        return who.run(words, json.dumps(patch))

    return deed


def _approved(who: Kubectl, namespace: str, name: str) -> Done:
    """kubectl knows no subresource `approval`, but raw paths."""
    raw = f"/apis/fathom.dev/v1alpha1/namespaces/{namespace}/scheduleroverrides/{name}"
    current = json.loads(who.ok(f"get --raw {raw}"))
    current["status"]["approval"]["approved"] = True
    return who.run(f"replace --raw {raw}/approval -f -", stdin=json.dumps(current))


def _drain(who: Kubectl, namespace: str, name: str) -> Done:
    drain = override(f"{namespace}-{name}", drain=True)
    drain["spec"]["target"] = "node/nowhere"
    return who.within("fathom-system").run("create -f -", stdin=manifest(drain))


def _create(who: Kubectl, _: str, name: str) -> Done:
    return who.run("create -f -", stdin=manifest(override(f"new-{name}", pauseRollout=True)))


DEEDS: dict[str, Deed] = {
    "create": _create,
    "drain": _drain,
    "approve": _approved,
    "extend": _patched({"spec": {"expiresAfter": "30m", "reason": "more"}}),
    "end": lambda who, _, name: who.run(f"delete scheduleroverride {name} --wait=false"),
    "status": _patched({"status": {"active": True}}, "--subresource=status"),
    "finalizer": _patched({"metadata": {"finalizers": None}}),
}


@pytest.fixture
def approvals(kubectl: Kubectl, namespace: str) -> Iterator[None]:
    limits = "patch steeringlimits default -n fathom-system --type=merge -p"
    kubectl.ok(limits, '{"spec":{"approvals":"on"}}')
    yield
    kubectl.ok(limits, '{"spec":{"approvals":"off"}}')
    system = kubectl.within("fathom-system")
    for name in system.ok("get scheduleroverrides -o name").split():
        if namespace in name:
            system.ok(f"delete {name} --wait=false")
            system.run(f"patch {name} --type=merge -p", '{"metadata":{"finalizers":null}}')


def _waiting(name: str) -> Obj:
    """One that needs approval, and has nothing to do with the others."""
    made = override(name, trafficWeights={"eu": 1})
    made["spec"]["target"] = f"workload/{name}"
    return made


def _bot(kubectl: Kubectl, person: As) -> Kubectl:
    """A service account that administers the namespace."""
    kubectl.ok("create serviceaccount bot")
    kubectl.ok(f"create rolebinding bot --clusterrole=admin --serviceaccount={kubectl.namespace}:bot")
    somebody = person("somebody")
    config = yaml.safe_load(somebody.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": kubectl.ok("create token bot").strip()}
    somebody.kubeconfig.write_text(yaml.safe_dump(config))
    return somebody


@pytest.mark.full  # By raw requests and by impersonation they are in every run: tests/security.
@pytest.mark.usefixtures("approvals")
def test_each_cell_by_kubectl(kubectl: Kubectl, person: As, namespace: str) -> None:
    people = {"cluster-admin": kubectl, "bot": _bot(kubectl, person)}
    for who, role in ROLES.items():
        people[who] = person(who)
        kubectl.ok(f"create rolebinding {who} --clusterrole={role} --user={who}")
    people["author"].create(*(_waiting(f"{who}-{deed}") for who in CELLS for deed in DEEDS))
    done: dict[str, str] = {}
    for who in CELLS:
        cells = []
        for deed, act in DEEDS.items():
            answer = act(people[who], namespace, f"{who}-{deed}")
            assert answer.code == 0 or "orbidden" in answer.err, (who, deed, answer.err)
            cells.append("." if answer.code else "y")
        done[who] = " ".join(cells)
    assert done == {who: " ".join(cells.split()) for who, cells in CELLS.items()}
