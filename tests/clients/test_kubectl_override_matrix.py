"""Each cell of who may do what to an override: with kubectl, with raw requests over TLS, with `kubectl --as`.
The table and the people are those of `override_matrix`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from tests.clients.kubectl import As, Done, Kubectl, manifest
from tests.clients.objects import Obj
from tests.clients.override_matrix import (
    APPROVED,
    CELLS,
    DEEDS,
    MERGE,
    OWN,
    SYSTEM,
    RawClient,
    cells,
    drain,
    gathered,
    propose,
    waiting,
)
from tests.clients.running import Server
from tests.clients.test_kubectl_overrides import override

# By raw requests and by impersonation they are in every run too, without sockets: tests/security.
pytestmark = [pytest.mark.kubectl, pytest.mark.full]

LONGER = {"spec": {"expiresAfter": "30m", "reason": "more"}}
STATUS = {"status": {"active": True}}
BARE = {"metadata": {"finalizers": None}}


@pytest.fixture
def approvals(kubectl: Kubectl, namespace: str) -> Iterator[None]:
    limits = "patch steeringlimits default -n fathom-system --type=merge -p"
    kubectl.ok(limits, '{"spec":{"approvals":"on"}}')
    yield
    kubectl.ok(limits, '{"spec":{"approvals":"off"}}')
    system = kubectl.within(SYSTEM)
    for name in system.ok("get scheduleroverrides -o name").split():
        if namespace in name:
            system.ok(f"delete {name} --wait=false")
            system.run(f"patch {name} --type=merge -p", '{"metadata":{"finalizers":null}}')


# By kubectl. `how`: options that say as whom, '' as oneself.


def _patched(who: Kubectl, how: str, name: str, patch: Obj, options: str = "") -> Done:
    return who.run(f"patch scheduleroverride {name} {options} --type=merge {how} -p", json.dumps(patch))


def _approved(who: Kubectl, how: str, path: str, change: Callable[[Obj], Obj]) -> Done:
    """kubectl knows no subresource `approval`, but raw paths."""
    raw = f"{OWN}/{who.namespace}/{path}"
    current = json.loads(who.ok(f"get --raw {raw} {how}"))
    current["status"] = change(current.get("status") or {})
    return who.run(f"replace --raw {raw}/approval {how} -f -", stdin=json.dumps(current))


def _decided(status: Obj) -> Obj:
    return {**status, "approval": {**status["approval"], **APPROVED}}


def by_kubectl(deed: str, who: Kubectl, how: str, name: str) -> Done:
    match deed:
        case "create":
            new = manifest(override(f"new-{name}", pauseRollout=True))
            return who.run(f"create {how} -f -", stdin=new)
        case "drain":
            made = manifest(drain(f"{who.namespace}-{name}"))
            return who.within(SYSTEM).run(f"create {how} -f -", stdin=made)
        case "approve":
            return _approved(who, how, f"scheduleroverrides/{name}", _decided)
        case "extend":
            return _patched(who, how, name, LONGER)
        case "end":
            return who.run(f"delete scheduleroverride {name} --wait=false {how}")
        case "status":
            return _patched(who, how, name, STATUS, "--subresource=status")
        case "finalizer":
            return _patched(who, how, name, BARE)
    return _approved(who, how, f"repairproposals/{name}", lambda status: {**status, **APPROVED})


def tried(who: Kubectl, how: str, prefix: str) -> dict[str, str]:
    row = {}
    for deed in DEEDS:
        answer = by_kubectl(deed, who, how, f"{prefix}-{deed}")
        assert answer.code == 0 or "orbidden" in answer.err, (prefix, deed, answer.err)
        row[deed] = "." if answer.code else "y"
    return row


def prepare(server: Server, people: dict[str, Kubectl], *prefixes: str) -> None:
    """What each of them tries its deeds on."""
    author = people["author"]
    author.create(*(waiting(f"{prefix}-{deed}") for prefix in prefixes for deed in DEEDS))
    propose(server, author.namespace, *(f"{prefix}-proposal" for prefix in prefixes))
    people["cluster-admin"].within(SYSTEM).ok("delete lease controllers")  # Nobody leads, here.


@pytest.mark.usefixtures("approvals")
def test_each_cell_by_kubectl(server: Server, kubectl: Kubectl, person: As) -> None:
    people = gathered(kubectl, person)
    prepare(server, people, *CELLS)
    assert {who: tried(people[who], "", who) for who in CELLS} == {who: cells(who) for who in CELLS}


# By raw requests.


def requests(namespace: str, name: str) -> dict[str, tuple[str, str, Obj | None]]:
    mine, proposals = f"{OWN}/{namespace}/scheduleroverrides", f"{OWN}/{namespace}/repairproposals"
    one = f"{mine}/{name}"
    return {
        "create": ("POST", mine, override(f"new-{name}", pauseRollout=True)),
        "drain": ("POST", f"{OWN}/{SYSTEM}/scheduleroverrides", drain(f"{namespace}-{name}")),
        "approve": ("PATCH", f"{one}-approve/approval", {"status": {"approval": APPROVED}}),
        "extend": ("PATCH", f"{one}-extend", LONGER),
        "end": ("DELETE", f"{one}-end", None),
        "status": ("PATCH", f"{one}-status/status", STATUS),
        "finalizer": ("PATCH", f"{one}-finalizer", BARE),
        "proposal": ("PATCH", f"{proposals}/{name}-proposal/approval", {"status": APPROVED}),
    }


@pytest.mark.usefixtures("approvals")
def test_each_cell_by_raw_requests_over_tls(
    server: Server, kubectl: Kubectl, person: As, namespace: str
) -> None:
    people = gathered(kubectl, person)
    prepare(server, people, *CELLS)
    for who in CELLS:
        client, row = RawClient(server.url, people[who].kubeconfig), {}
        for deed, (method, path, body) in requests(namespace, who).items():
            media = MERGE if method == "PATCH" else "application/json"
            code, answer = client.send(method, path, body, media)
            assert code in {200, 201, 403}, (who, deed, answer)
            row[deed] = "." if code == 403 else "y"
        assert (who, row) == (who, cells(who))


# By impersonation. Deeds that stay refused to the real user in whatever name.

LOST = {"cluster-admin": (), "author": ("approve",), "bot": ("approve", "proposal")}
ACTS_AS = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "rules": [
        {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users", "groups", "serviceaccounts"]}
    ],
}


def as_whom(who: str, namespace: str) -> str:
    if who == "cluster-admin":
        return "--as=boss --as-group=system:masters"
    name = f"system:serviceaccount:{namespace}:bot" if who == "bot" else who
    return f"--as={name} --as-group=system:authenticated"


@pytest.mark.usefixtures("approvals")
@pytest.mark.parametrize("real", LOST)
def test_each_cell_by_kubectl_in_the_name_of_another(
    real: str, server: Server, kubectl: Kubectl, person: As, namespace: str
) -> None:
    people, everywhere = gathered(kubectl, person), kubectl.within("")
    subject = f"--serviceaccount={namespace}:bot" if real == "bot" else f"--user={real}"
    everywhere.create({**ACTS_AS, "metadata": {"name": namespace}})
    everywhere.ok(f"create clusterrolebinding {namespace} --clusterrole={namespace} {subject}")
    try:
        prepare(server, people, *CELLS)
        for who in CELLS:
            row = tried(people[real], as_whom(who, namespace), who)
            assert (who, row) == (who, cells(who, *LOST[real]))
    finally:
        everywhere.ok(f"delete clusterrolebinding/{namespace} clusterrole/{namespace}")
