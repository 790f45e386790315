"""Which strategy belongs to which resource. Strategies have no state, so one of each is enough."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fathom.api.strategy.base import Strategy
from fathom.api.strategy.certificates import CertificateRequestStrategy
from fathom.api.strategy.configmaps import ConfigMapStrategy, SecretStrategy
from fathom.api.strategy.cronjobs import CronJobStrategy
from fathom.api.strategy.definitions import DefinitionStrategy
from fathom.api.strategy.deployments import DeploymentStrategy
from fathom.api.strategy.disruption import PodDisruptionBudgetStrategy
from fathom.api.strategy.events import EventStrategy
from fathom.api.strategy.ingresses import IngressStrategy
from fathom.api.strategy.jobs import JobStrategy
from fathom.api.strategy.leases import LeaseStrategy
from fathom.api.strategy.namespaces import NamespaceStrategy
from fathom.api.strategy.nodes import NodeStrategy
from fathom.api.strategy.own import OwnStrategy
from fathom.api.strategy.pods import PodStrategy
from fathom.api.strategy.priorities import PriorityClassStrategy
from fathom.api.strategy.quotas import LimitRangeStrategy, ResourceQuotaStrategy
from fathom.api.strategy.rbac import RoleBindingStrategy, RoleStrategy
from fathom.api.strategy.replicasets import ReplicaSetStrategy, ReplicationControllerStrategy
from fathom.api.strategy.services import ServiceStrategy
from fathom.api.strategy.storage import PersistentVolumeClaimStrategy, PersistentVolumeStrategy
from fathom.api.strategy.trust_bundles import TrustBundleStrategy
from fathom.api.strategy.workloads import (
    ControllerRevisionStrategy,
    DaemonSetStrategy,
    PodTemplateStrategy,
    StatefulSetStrategy,
)
from fathom.kinds.all import KINDS

_RBAC = "rbac.authorization.k8s.io"

STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
    {
        "configmaps": ConfigMapStrategy(),
        "events": EventStrategy(),
        "limitranges": LimitRangeStrategy(),
        "namespaces": NamespaceStrategy(),
        "nodes": NodeStrategy(),
        "persistentvolumeclaims": PersistentVolumeClaimStrategy(),
        "persistentvolumes": PersistentVolumeStrategy(),
        "pods": PodStrategy(),
        "podtemplates": PodTemplateStrategy(),
        "replicationcontrollers": ReplicationControllerStrategy(),
        "resourcequotas": ResourceQuotaStrategy(),
        "secrets": SecretStrategy(),
        "services": ServiceStrategy(),
        "controllerrevisions.apps": ControllerRevisionStrategy(),
        "customresourcedefinitions.apiextensions.k8s.io": DefinitionStrategy(),
        "daemonsets.apps": DaemonSetStrategy(),
        "deployments.apps": DeploymentStrategy(),
        "replicasets.apps": ReplicaSetStrategy(),
        "statefulsets.apps": StatefulSetStrategy(),
        "cronjobs.batch": CronJobStrategy(),
        "jobs.batch": JobStrategy(),
        "certificatesigningrequests.certificates.k8s.io": CertificateRequestStrategy(),
        "clustertrustbundles.certificates.k8s.io": TrustBundleStrategy(),
        "ingresses.networking.k8s.io": IngressStrategy(),
        "leases.coordination.k8s.io": LeaseStrategy(),
        "poddisruptionbudgets.policy": PodDisruptionBudgetStrategy(),
        "priorityclasses.scheduling.k8s.io": PriorityClassStrategy(),
        f"clusterroles.{_RBAC}": RoleStrategy(namespaced=False),
        f"roles.{_RBAC}": RoleStrategy(namespaced=True),
        f"clusterrolebindings.{_RBAC}": RoleBindingStrategy(namespaced=False),
        f"rolebindings.{_RBAC}": RoleBindingStrategy(namespaced=True),
        **{kind.resource: OwnStrategy(kind.rules) for kind in KINDS if kind.rules is not None},
    }
)

DEFAULT = Strategy()


def strategy_for(resource: str) -> Strategy:
    """'pods', 'deployments.apps'. Any other resource takes what its schema allows."""
    return STRATEGIES.get(resource, DEFAULT)
