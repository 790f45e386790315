"""Whose a pod is, who may say so, and what a quota tells its readers."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.api.binding.cluster import NODES, OWN, PODS, bind, node, own, pod
from tests.api.harness import JANE, Api, tell

from fathom.api.ledger.reporting import tenant_status
from fathom.kinds.tenant_quota import TENANT_QUOTAS
from fathom.model.objects import Key, Obj

RBAC = "/apis/rbac.authorization.k8s.io/v1"


async def may(api: Api, user: str, name: str, rule: Obj) -> None:
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name}}
    await api.post(f"{RBAC}/clusterroles", {**kind, "kind": "ClusterRole", "rules": [rule]})
    binding = {
        **kind,
        "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
    }
    await api.post(f"{RBAC}/clusterrolebindings", binding)


def test_naming_another_tenant_needs_its_leave(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await may(api, "jane", "pods", {"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]})
        risky = pod("p", labels={"fathom.dev/tenant": "risk"})
        own_tenant = pod("q", labels={"fathom.dev/tenant": "default"})
        answer = await api.post(PODS, risky, token=JANE)
        assert (answer.status, answer.obj["message"]) == (
            403,
            'pods "p" is forbidden: jane may not use the quota of tenant "risk"',
        )
        assert (await api.post(PODS, own_tenant, token=JANE)).status == 201
        change = {"metadata": {"labels": {"fathom.dev/tenant": "risk"}}}
        assert (await api.patch(f"{PODS}/q", change, token=JANE)).status == 403
        rule = {
            "apiGroups": ["fathom.dev"],
            "resources": ["tenantquotas"],
            "resourceNames": ["risk"],
            "verbs": ["use"],
        }
        await may(api, "jane", "use-risk", rule)
        assert (await api.post(PODS, risky, token=JANE)).status == 201

    tell(story, tmp_path)


@pytest.mark.slow
def test_a_quota_says_what_is_used_and_when_that_was(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        limits = {"limits": [{"resources": {"cpu": "4"}}]}
        await api.post(f"{OWN}/tenantquotas", own("TenantQuota", "default", limits))
        await api.post(NODES, node("n1", zone="zone-c"))
        await api.post(PODS, pod("p", cpu="1500m"))
        await bind(api, "p", "n1")
        view = api.core.cache
        status = tenant_status(view.get(TENANT_QUOTAS, Key("", "default")).obj, view)
        assert status == {
            "used": [{"zone": "zone-c", "resources": {"cpu": "1500m", "pods": "1"}}],
            "observedGeneration": 1,
            "countedAt": view.get("tenantledgers.fathom.dev", Key("", "default")).revision,
        }

        async def reported() -> bool:
            found = (await api.get(f"{OWN}/tenantquotas/default")).obj
            return bool(found.get("status") == status)

        await api.eventually(reported)
        assert tenant_status(view.get(TENANT_QUOTAS, Key("", "default")).obj, view) is None

    tell(story, tmp_path)
