"""Who attacks: users with the rights of a role in one namespace, nodes, and fathom's own accounts."""

from __future__ import annotations

from typing import Any

from tests.api.harness import ADMIN, JANE, Answer, Api

from fathom.api.auth.static_tokens import digest
from fathom.model.objects import Obj
from fathom.model.user import MASTERS, User

OWN = "/apis/fathom.dev/v1alpha1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CONTROLLERS, SCHEDULER = "system:fathom:controllers", "system:fathom:scheduler"
GATEWAY = "system:fathom:gateway"


def introduce(api: Api, *users: User) -> None:
    """Each is known by a token that is its name."""
    known = {
        digest(ADMIN): User("admin", (MASTERS, "system:authenticated")),
        digest(JANE): User("jane", ("developers", "system:authenticated")),
    }
    met = {digest(one.name): User(one.name, (*one.groups, "system:authenticated")) for one in users}
    api.parts.authenticator.replace_tokens({**api.parts.own_tokens, **known, **met})


def node(name: str) -> User:
    return User(f"system:node:{name}", ("system:nodes",))


async def grant(api: Api, user: str, role: str, namespace: str) -> None:
    """The ClusterRole, in this namespace."""
    binding = {
        "metadata": {"name": f"{user}-{role}".replace(":", "-")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
    }
    made = await api.post(f"{RBAC}/namespaces/{namespace}/rolebindings", binding)
    assert made.status == 201, made.obj


async def grant_rule(api: Api, user: str, name: str, rule: Obj) -> None:
    """A rule of its own, in the whole cluster."""
    assert (
        await api.post(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": [rule]})
    ).status == 201
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
    }
    assert (await api.post(f"{RBAC}/clusterrolebindings", binding)).status == 201


async def namespaces(api: Api, *names: str) -> None:
    for name in names:
        assert (await api.post("/api/v1/namespaces", {"metadata": {"name": name}})).status == 201


async def lead(api: Api, account: str, lease: str) -> dict[str, str]:
    """The account takes its lease; the header to show with what it writes."""
    namespace, name = lease.split("/")
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    spec = {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}
    taken = await api.post(path, {"metadata": {"name": name}, "spec": spec}, token=account)
    assert taken.status == 201, taken.obj
    return {"fathom-fence": f"{lease}/{taken.obj['metadata']['annotations']['fathom.dev/epoch']}"}


def pod(name: str, *, annotations: dict[str, str] | None = None, **spec: Any) -> Obj:
    meta: Obj = {"name": name, **({"annotations": annotations} if annotations else {})}
    containers = [{"name": "c", "image": "i"}]
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": {"containers": containers, **spec}}


def said(answer: Answer) -> tuple[int, str]:
    return answer.status, str(answer.obj.get("message", ""))


KINDS = {
    "scheduleroverrides": "SchedulerOverride",
    "trafficroutes": "TrafficRoute",
    "workloadprogresses": "WorkloadProgress",
    "reservations": "Reservation",
    "repairproposals": "RepairProposal",
    "capacityclasses": "CapacityClass",
    "tenantquotas": "TenantQuota",
    "schedulingpolicies": "SchedulingPolicy",
    "policyrollouts": "PolicyRollout",
}


def own(plural: str, name: str, spec: Obj) -> Obj:
    """An object of one of fathom's kinds."""
    return {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": KINDS[plural],
        "metadata": {"name": name},
        "spec": spec,
    }
