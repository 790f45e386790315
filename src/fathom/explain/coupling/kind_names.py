"""Kinds by the names that people and records use: 'Deployment', 'deploy', 'deployments.apps'."""

from __future__ import annotations

from functools import cache

from fathom.kube.definitions.kind import Kind
from fathom.kube.definitions.own import OWN_KINDS
from fathom.kube.definitions.registry import Registry

# Resources of the store, not of the API: what is held on a node, by a tenant, for an intent, and more.
STORE_ONLY = {
    "ExpansionLock": "expansionlocks.fathom.dev",
    "Fence": "fences.fathom.dev",
    "IntentLedger": "intentledgers.fathom.dev",
    "Ledger": "ledgers.fathom.dev",
    "NodeLedger": "nodeledgers.fathom.dev",
    "PlacementRules": "placementrules.fathom.dev",
    "QuotaRules": "quotarules.fathom.dev",
    "ServiceClaim": "serviceclaims.fathom.dev",
    "TenantLedger": "tenantledgers.fathom.dev",
}
# Resources of the API, not of the store: what agents measure.
SERVED_ONLY = {"PodMetrics": "pods.metrics.k8s.io"}
NOT_IN_REGISTRY = {**STORE_ONLY, **SERVED_ONLY}


@cache
def _kinds() -> dict[str, Kind]:
    """By resource."""
    return {kind.resource: kind for kind in (*OWN_KINDS, *Registry.builtin().kinds())}


@cache
def _names() -> tuple[dict[str, str], dict[str, str]]:
    """Kind -> resource, and any name in lower case -> kind."""
    resources, kinds = dict(NOT_IN_REGISTRY), {name.lower(): name for name in NOT_IN_REGISTRY}
    kinds |= {resource: kind for kind, resource in NOT_IN_REGISTRY.items()}
    for kind in _kinds().values():
        # The group that was first has the name: `Event` is the core group's.
        resources.setdefault(kind.kind, kind.resource)
        for name in (kind.kind.lower(), kind.plural, kind.resource, *kind.short_names):
            kinds.setdefault(name, kind.kind)
    return resources, kinds


def resource_of(kind: str) -> str:
    """'Deployment' -> 'deployments.apps'; '' for a kind that is not known here."""
    return _names()[0].get(kind, "")


def kind_of(name: str) -> str:
    """'deploy', 'Deployment', 'deployments.apps' -> 'Deployment'; '' for a name that is not known here."""
    return _names()[1].get(name.lower(), "")


def is_namespaced(kind: str) -> bool:
    known = _kinds().get(resource_of(kind))
    return known is None or known.namespaced
