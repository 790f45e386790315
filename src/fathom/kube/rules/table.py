"""Which strategy belongs to which resource. Strategies have no state, so one of each is enough."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fathom.kinds.all import KINDS
from fathom.kube.rules.access.certificates import CertificateRequestStrategy
from fathom.kube.rules.access.rbac import RoleBindingStrategy, RoleStrategy
from fathom.kube.rules.access.trust_bundles import TrustBundleStrategy
from fathom.kube.rules.base import Strategy
from fathom.kube.rules.cluster.custom_definitions import DefinitionStrategy
from fathom.kube.rules.cluster.events import EventStrategy
from fathom.kube.rules.cluster.leases import LeaseStrategy
from fathom.kube.rules.cluster.namespaces import NamespaceStrategy
from fathom.kube.rules.cluster.nodes import NodeStrategy
from fathom.kube.rules.cluster.priority_classes import PriorityClassStrategy
from fathom.kube.rules.cluster.quotas import LimitRangeStrategy, ResourceQuotaStrategy
from fathom.kube.rules.network.ingresses import IngressStrategy
from fathom.kube.rules.network.services import ServiceStrategy
from fathom.kube.rules.own_kinds import OwnStrategy
from fathom.kube.rules.pod.strategy import PodStrategy
from fathom.kube.rules.storage.configmaps import ConfigMapStrategy, SecretStrategy
from fathom.kube.rules.storage.volumes import PersistentVolumeClaimStrategy, PersistentVolumeStrategy
from fathom.kube.rules.workloads.cronjobs import CronJobStrategy
from fathom.kube.rules.workloads.deployments import DeploymentStrategy
from fathom.kube.rules.workloads.disruption_budgets import PodDisruptionBudgetStrategy
from fathom.kube.rules.workloads.jobs import JobStrategy
from fathom.kube.rules.workloads.replicasets import ReplicaSetStrategy, ReplicationControllerStrategy
from fathom.kube.rules.workloads.stateful_and_daemon_sets import (
    ControllerRevisionStrategy,
    DaemonSetStrategy,
    PodTemplateStrategy,
    StatefulSetStrategy,
)

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
