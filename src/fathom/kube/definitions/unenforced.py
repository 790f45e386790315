"""Kinds and fields that fathom stores but does not act on: the table, and how objects are checked against it.

    REFUSED     users rely on it for their safety: stored only with an annotation that accepts it
    KEPT        kinds and fields that are stored, with a warning when they are written
    POD_FIELDS  the same for pods and templates, with a few warnings for all of them together

`docs/unenforced.md` has the same table; a test compares them. A change that makes fathom act on a field
removes its line. A path leads through fields; `[]` is every item of a list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from fathom.model.objects import Key, Obj, lookup

ACCEPT = "fathom.dev/accept-unenforced"  # Annotation: "true" where the writer knows that it is not enforced.

KUBE_CONTROLLERS = Key("kube-system", "kube-controller-manager")  # Leases of programs that may act instead.
CLOUD_CONTROLLERS = Key("kube-system", "cloud-controller-manager")


class UnenforcedRule(msgspec.Struct, frozen=True, kw_only=True):
    resource: str
    path: tuple[str, ...] = ()  # Of the field; empty: the whole kind.
    says: str  # What fathom does not do. Follows 'kept, but '.
    refused: bool = False  # Unless the writer accepts it.
    only: tuple[Any, ...] = ()  # The values that the rule is about; empty: all but `harmless`.
    harmless: tuple[Any, ...] = ()
    acts: Key | None = None  # The lease of a program that acts on it: no warning while it is held.

    @property
    def field(self) -> str:
        return ".".join(self.path).replace(".[]", "[]")


def _rule(resource: str, path: str, says: str, **more: Any) -> UnenforcedRule:
    return UnenforcedRule(resource=resource, path=_steps(path), says=says, **more)


def _steps(path: str) -> tuple[str, ...]:
    return tuple(path.replace("[]", ".[]").split(".")) if path else ()


_ADMISSION = "admissionregistration.k8s.io"
_NO_WEBHOOK = "fathom does not call webhooks: it accepts what they would refuse or change"
_NO_POLICY = "fathom does not evaluate admission policies: it accepts what they would refuse or change"

REFUSED = (
    _rule(f"validatingwebhookconfigurations.{_ADMISSION}", "webhooks", _NO_WEBHOOK, refused=True),
    _rule(f"mutatingwebhookconfigurations.{_ADMISSION}", "webhooks", _NO_WEBHOOK, refused=True),
    _rule(f"validatingadmissionpolicies.{_ADMISSION}", "", _NO_POLICY, refused=True),
    _rule(f"validatingadmissionpolicybindings.{_ADMISSION}", "", _NO_POLICY, refused=True),
    _rule(f"mutatingadmissionpolicies.{_ADMISSION}", "", _NO_POLICY, refused=True),
    _rule(f"mutatingadmissionpolicybindings.{_ADMISSION}", "", _NO_POLICY, refused=True),
    _rule(
        "apiservices.apiregistration.k8s.io",
        "spec.service",
        "fathom does not forward requests to other API servers",
        refused=True,
    ),
)

_NO_PODS = "fathom has no controller for it: no pods will be created"
_FLOWS = "fathom limits requests by its own rules, not by this one"
_STORAGE = "fathom does not provision, bind, attach or mount volumes"
_DEVICES = "fathom does not allocate devices to claims"
_SIGNS = "fathom does not sign its certificate"
_ANY_NODE = "fathom sends traffic to endpoints on any node"

KEPT = (
    _rule("daemonsets.apps", "", _NO_PODS, acts=KUBE_CONTROLLERS),
    _rule("statefulsets.apps", "", _NO_PODS, acts=KUBE_CONTROLLERS),
    _rule("replicationcontrollers", "", _NO_PODS, acts=KUBE_CONTROLLERS),
    _rule(
        "cronjobs.batch",
        "",
        "fathom has no controller for it: no jobs will be created",
        acts=KUBE_CONTROLLERS,
    ),
    _rule("jobs.batch", "spec.scheduling", "fathom schedules every pod of a job separately"),
    _rule(
        "networkpolicies.networking.k8s.io",
        "",
        "fathom does not enforce it: all traffic is allowed",
    ),
    _rule("ingresses.networking.k8s.io", "", "fathom has no controller for it: it routes no traffic"),
    _rule("ingressclasses.networking.k8s.io", "", "fathom has no controller for Ingresses"),
    _rule("servicecidrs.networking.k8s.io", "", "fathom assigns Service addresses from its own range only"),
    _rule(
        "services",
        "spec.type",
        "fathom creates no load balancer: only the cluster IP and node ports are served",
        only=("LoadBalancer",),
        acts=CLOUD_CONTROLLERS,
    ),
    _rule("services", "spec.externalName", "fathom has no DNS server: the name is not resolved"),
    _rule("services", "spec.externalIPs", "fathom does not serve these addresses"),
    _rule("services", "spec.loadBalancerSourceRanges", "fathom does not check the source of traffic"),
    _rule("services", "spec.externalTrafficPolicy", _ANY_NODE, only=("Local",)),
    _rule("services", "spec.internalTrafficPolicy", _ANY_NODE, only=("Local",)),
    _rule("services", "spec.ports[].protocol", "fathom serves TCP only", harmless=("TCP",)),
    _rule(
        "horizontalpodautoscalers.autoscaling",
        "spec.metrics[].type",
        "fathom scales by resource usage only",
        only=("Pods", "Object", "External"),
    ),
    UnenforcedRule(
        resource="namespaces",
        path=("metadata", "labels", "pod-security.kubernetes.io/enforce"),
        says="fathom does not enforce pod security standards: pods that violate them are accepted",
        harmless=("privileged",),
    ),
    _rule(
        "resourcequotas",
        "spec.scopes[]",
        "fathom does not count usage by this scope",
        only=("VolumeAttributesClass",),
    ),
    _rule(
        "resourcequotas",
        "spec.scopeSelector.matchExpressions[].scopeName",
        "fathom does not count usage by this scope",
        only=("VolumeAttributesClass",),
    ),
    _rule("serviceaccounts", "imagePullSecrets", "fathom's agents do not pull images"),
    UnenforcedRule(
        resource="serviceaccounts",
        path=("metadata", "annotations", "kubernetes.io/enforce-mountable-secrets"),
        says="fathom lets pods of the account use every Secret of the namespace",
        only=("true",),
    ),
    _rule(
        "runtimeclasses.node.k8s.io",
        "handler",
        "fathom's agents run every pod in the same way; only overhead and scheduling take effect",
    ),
    _rule("persistentvolumeclaims", "", _STORAGE, acts=KUBE_CONTROLLERS),
    _rule("persistentvolumes", "", _STORAGE, acts=KUBE_CONTROLLERS),
    _rule("storageclasses.storage.k8s.io", "", _STORAGE, acts=KUBE_CONTROLLERS),
    _rule("csidrivers.storage.k8s.io", "", _STORAGE),
    _rule("volumeattachments.storage.k8s.io", "", _STORAGE),
    _rule("volumeattributesclasses.storage.k8s.io", "", _STORAGE),
    _rule("deviceclasses.resource.k8s.io", "", _DEVICES),
    _rule("devicetaintrules.resource.k8s.io", "", _DEVICES),
    _rule("resourceclaims.resource.k8s.io", "", _DEVICES),
    _rule("resourceclaimtemplates.resource.k8s.io", "", _DEVICES),
    _rule(
        "certificatesigningrequests.certificates.k8s.io",
        "spec.signerName",
        "fathom signs certificates of nodes only",
        harmless=("kubernetes.io/kube-apiserver-client-kubelet",),
        acts=KUBE_CONTROLLERS,
    ),
    _rule("podcertificaterequests.certificates.k8s.io", "", _SIGNS),
    _rule("clustertrustbundles.certificates.k8s.io", "", "fathom's agents do not mount it"),
    _rule("storageversionmigrations.storagemigration.k8s.io", "", "fathom does not migrate stored objects"),
    _rule("flowschemas.flowcontrol.apiserver.k8s.io", "", _FLOWS),
    _rule("prioritylevelconfigurations.flowcontrol.apiserver.k8s.io", "", _FLOWS),
)

ISOLATION, REST, VOLUMES = "isolation", "rest", "volumes"

POD_SAYS = {
    ISOLATION: "fathom's agents do not enforce",
    REST: "fathom's agents do not act on",
    VOLUMES: "fathom's agents cannot mount, so containers that use it will not start:",
}

_CONTAINER_LISTS = ("containers[]", "initContainers[]")  # Where a container's fields are.


class PodField(msgspec.Struct, frozen=True, kw_only=True):
    path: str  # In a pod's spec. A path in containers applies to init containers too.
    group: str = REST
    only: tuple[Any, ...] = ()
    harmless: tuple[Any, ...] = ()


POD_FIELDS = (
    PodField(path="hostIPC", group=ISOLATION),
    PodField(path="hostPID", group=ISOLATION),
    PodField(path="hostUsers", group=ISOLATION, only=(False,)),
    PodField(path="shareProcessNamespace"),
    PodField(path="setHostnameAsFQDN"),
    PodField(path="hostnameOverride"),
    PodField(path="imagePullSecrets"),
    PodField(path="runtimeClassName", group=ISOLATION),
    PodField(path="resourceClaims"),
    PodField(path="schedulingGroup"),
    PodField(path="evictionResponders"),
    PodField(path="os.name", harmless=("linux",)),
    PodField(path="securityContext.appArmorProfile.type", group=ISOLATION, harmless=("Unconfined",)),
    PodField(path="securityContext.seLinuxOptions", group=ISOLATION),
    PodField(path="securityContext.seccompProfile.type", group=ISOLATION, harmless=("Unconfined",)),
    PodField(path="securityContext.supplementalGroupsPolicy", group=ISOLATION, harmless=("Merge",)),
    PodField(path="securityContext.sysctls"),
    PodField(path="securityContext.windowsOptions"),
    PodField(path="containers[].lifecycle.stopSignal"),
    PodField(path="containers[].livenessProbe.grpc"),
    PodField(path="containers[].readinessProbe.grpc"),
    PodField(path="containers[].startupProbe.grpc"),
    PodField(path="containers[].ports[].hostPort"),
    PodField(path="containers[].resources.claims"),
    PodField(
        path="containers[].securityContext.appArmorProfile.type", group=ISOLATION, harmless=("Unconfined",)
    ),
    PodField(
        path="containers[].securityContext.capabilities.add[]",
        harmless=("NET_BIND_SERVICE", "CAP_NET_BIND_SERVICE"),
    ),
    PodField(path="containers[].securityContext.privileged"),
    PodField(path="containers[].securityContext.procMount", group=ISOLATION, harmless=("Default",)),
    PodField(path="containers[].securityContext.readOnlyRootFilesystem", group=ISOLATION),
    PodField(path="containers[].securityContext.seLinuxOptions", group=ISOLATION),
    PodField(
        path="containers[].securityContext.seccompProfile.type", group=ISOLATION, harmless=("Unconfined",)
    ),
    PodField(path="containers[].securityContext.windowsOptions"),
    PodField(path="containers[].volumeDevices"),
    PodField(path="containers[].volumeMounts[].bindMountOptions"),
    PodField(path="containers[].volumeMounts[].mountPropagation", harmless=("None",)),
    PodField(
        path="containers[].volumeMounts[].recursiveReadOnly", group=ISOLATION, harmless=("Disabled",)
    ),
    PodField(path="volumes[].emptyDir.medium"),
    PodField(path="volumes[].emptyDir.sizeLimit"),
    PodField(path="volumes[].projected.sources[].clusterTrustBundle", group=VOLUMES),
    PodField(path="volumes[].projected.sources[].podCertificate", group=VOLUMES),
    *(
        PodField(path=f"volumes[].{name}", group=VOLUMES)
        for name in (
            "awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "ephemeral", "fc",
            "flexVolume", "flocker", "gcePersistentDisk", "gitRepo", "glusterfs", "image", "iscsi", "nfs",
            "persistentVolumeClaim", "photonPersistentDisk", "portworxVolume", "quobyte", "rbd", "scaleIO",
            "storageos", "vsphereVolume",
        )
    ),
)  # fmt: skip

NAMES_MAX = 8  # In one warning, which gives the number of the rest.


# Tables are walked as trees: only fields that an object has are visited.

Leaf = UnenforcedRule | PodField
Tree = dict[str, Any]  # Field -> Tree; '' -> the Leaf for the field itself.


def _tree(leaves: Sequence[tuple[tuple[str, ...], Leaf]]) -> Tree:
    tree: Tree = {}
    for steps, leaf in leaves:
        level = tree
        for step in steps:
            level = level.setdefault(step, {})
        level[""] = leaf
    return tree


def _matches(tree: Tree, value: Any) -> Iterator[tuple[Leaf, Any]]:
    leaf = tree.get("")
    if leaf is not None and _applies(leaf, value):
        yield leaf, value
    if isinstance(value, dict):
        for name, inner in tree.items():
            if name in value and name:
                yield from _matches(inner, value[name])
    elif isinstance(value, list) and "[]" in tree:
        for item in value:
            yield from _matches(tree["[]"], item)


def _applies(leaf: Leaf, value: Any) -> bool:
    if leaf.only:
        return value in leaf.only
    return bool(value) and value not in leaf.harmless


def _by_resource() -> dict[str, tuple[tuple[UnenforcedRule, ...], Tree]]:
    rules = (*REFUSED, *KEPT)
    return {
        name: (
            tuple(rule for rule in rules if rule.resource == name and not rule.path),
            _tree([(rule.path, rule) for rule in rules if rule.resource == name and rule.path]),
        )
        for name in {rule.resource for rule in rules}
    }


RESOURCES = _by_resource()


class Unenforced(msgspec.Struct, frozen=True):
    rule: UnenforcedRule
    values: tuple[Any, ...]  # The object's values there; for a whole kind, one with all of its wanted state.


_NOT_WANTED = frozenset({"kind", "apiVersion", "metadata", "status"})


def unenforced(resource: str, obj: Obj) -> list[Unenforced]:
    """The fields of an object that fathom does not act on, in their order."""
    whole, tree = RESOURCES[resource]
    wanted = {name: value for name, value in obj.items() if name not in _NOT_WANTED}
    by_field: dict[str, tuple[UnenforcedRule, list[Any]]] = {rule.field: (rule, [wanted]) for rule in whole}
    for leaf, value in _matches(tree, obj) if tree else ():
        assert isinstance(leaf, UnenforcedRule)
        by_field.setdefault(leaf.field, (leaf, []))[1].append(value)
    return [Unenforced(rule, tuple(values)) for rule, values in by_field.values()]


def _pod_tree() -> Tree:
    leaves: list[tuple[tuple[str, ...], Leaf]] = []
    for field in POD_FIELDS:
        first, dot, rest = field.path.partition(".")
        paths = (
            [f"{place}.{rest}" for place in _CONTAINER_LISTS]
            if first == _CONTAINER_LISTS[0] and dot
            else [field.path]
        )
        leaves += [(_steps(path), field) for path in paths]
    return _tree(leaves)


_POD_TREE = _pod_tree()


def pod_sentences(spec: Obj, at: str) -> list[str]:
    """At most one warning for each group. `at` is the path of the spec: 'spec', 'spec.template.spec'."""
    named: dict[str, dict[str, None]] = {}
    for leaf, _ in _matches(_POD_TREE, spec):
        assert isinstance(leaf, PodField)
        if leaf.path.endswith("hostPort") and spec.get("hostNetwork"):
            continue  # With hostNetwork it is the container's own port.
        named.setdefault(leaf.group, {})[leaf.path] = None
    return [
        f"{at}: kept, but {sentence} {_listed(list(named[group]))}"
        for group, sentence in POD_SAYS.items()
        if group in named
    ]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return ", ".join(names[:NAMES_MAX]) + more


def is_accepted(obj: Obj) -> bool:
    return bool(lookup(obj, "metadata", "annotations", ACCEPT) == "true")
