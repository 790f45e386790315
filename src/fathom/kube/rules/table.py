"""Which rules belong to which resource. They have no state, so one object of each class is enough."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fathom.kinds.all import KINDS
from fathom.kube.rules.access.certificates import CertificateRequestRules
from fathom.kube.rules.access.rbac import RoleBindingRules, RoleRules
from fathom.kube.rules.access.trust_bundles import TrustBundleRules
from fathom.kube.rules.base import KindRules
from fathom.kube.rules.cluster.custom_definitions import DefinitionRules
from fathom.kube.rules.cluster.events import EventRules
from fathom.kube.rules.cluster.leases import LeaseRules
from fathom.kube.rules.cluster.namespaces import NamespaceRules
from fathom.kube.rules.cluster.nodes import NodeRules
from fathom.kube.rules.cluster.priority_classes import PriorityClassRules
from fathom.kube.rules.cluster.quotas import LimitRangeRules, ResourceQuotaRules
from fathom.kube.rules.network.ingresses import IngressRules
from fathom.kube.rules.network.services import ServiceRules
from fathom.kube.rules.own_kinds import OwnRules
from fathom.kube.rules.pod.pods import PodRules
from fathom.kube.rules.storage.configmaps import ConfigMapRules, SecretRules
from fathom.kube.rules.storage.volumes import PersistentVolumeClaimRules, PersistentVolumeRules
from fathom.kube.rules.workloads.autoscalers import AutoscalerRules
from fathom.kube.rules.workloads.cronjobs import CronJobRules
from fathom.kube.rules.workloads.deployments import DeploymentRules
from fathom.kube.rules.workloads.disruption_budgets import PodDisruptionBudgetRules
from fathom.kube.rules.workloads.jobs import JobRules
from fathom.kube.rules.workloads.replicasets import ReplicaSetRules, ReplicationControllerRules
from fathom.kube.rules.workloads.stateful_and_daemon_sets import (
    ControllerRevisionRules,
    DaemonSetRules,
    PodTemplateRules,
    StatefulSetRules,
)
from fathom.model.resource_names import RBAC_GROUP

RULES: Mapping[str, KindRules] = MappingProxyType(
    {
        "configmaps": ConfigMapRules(),
        "events": EventRules(),
        "limitranges": LimitRangeRules(),
        "namespaces": NamespaceRules(),
        "nodes": NodeRules(),
        "persistentvolumeclaims": PersistentVolumeClaimRules(),
        "persistentvolumes": PersistentVolumeRules(),
        "pods": PodRules(),
        "podtemplates": PodTemplateRules(),
        "replicationcontrollers": ReplicationControllerRules(),
        "resourcequotas": ResourceQuotaRules(),
        "secrets": SecretRules(),
        "services": ServiceRules(),
        "controllerrevisions.apps": ControllerRevisionRules(),
        "customresourcedefinitions.apiextensions.k8s.io": DefinitionRules(),
        "daemonsets.apps": DaemonSetRules(),
        "deployments.apps": DeploymentRules(),
        "replicasets.apps": ReplicaSetRules(),
        "statefulsets.apps": StatefulSetRules(),
        "horizontalpodautoscalers.autoscaling": AutoscalerRules(),
        "cronjobs.batch": CronJobRules(),
        "jobs.batch": JobRules(),
        "certificatesigningrequests.certificates.k8s.io": CertificateRequestRules(),
        "clustertrustbundles.certificates.k8s.io": TrustBundleRules(),
        "ingresses.networking.k8s.io": IngressRules(),
        "leases.coordination.k8s.io": LeaseRules(),
        "poddisruptionbudgets.policy": PodDisruptionBudgetRules(),
        "priorityclasses.scheduling.k8s.io": PriorityClassRules(),
        f"clusterroles.{RBAC_GROUP}": RoleRules(namespaced=False),
        f"roles.{RBAC_GROUP}": RoleRules(namespaced=True),
        f"clusterrolebindings.{RBAC_GROUP}": RoleBindingRules(namespaced=False),
        f"rolebindings.{RBAC_GROUP}": RoleBindingRules(namespaced=True),
        **{kind.resource: OwnRules(kind.rules) for kind in KINDS if kind.rules is not None},
    }
)

DEFAULT = KindRules()


def rules_for(resource: str) -> KindRules:
    """'pods', 'deployments.apps'. Any other resource takes what its schema allows."""
    return RULES.get(resource, DEFAULT)
