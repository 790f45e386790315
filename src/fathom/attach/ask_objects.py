"""What `fathom attach --ask-api` installs, so that the cluster's own server knows the group `ask.fathom.dev`:
APIService, Service, where fathom runs outside its EndpointSlice, and roles. Pure.

The APIService has no `caBundle` yet: the process that serves writes its own into it (docs/decisions/0045).
"""

from __future__ import annotations

from ipaddress import ip_address

import msgspec

from fathom.attach.front_proxy import NAME as AUTHENTICATION
from fathom.attach.front_proxy import NAMESPACE as AUTHENTICATION_NAMESPACE
from fathom.attach.rights import Right, rules_of
from fathom.kinds.shape import ASK_GROUP, VERSION
from fathom.kube.definitions.own import ASK_KINDS
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.objects import Obj
from fathom.model.resource import Resource
from fathom.model.resource_names import RBAC_GROUP

API_SERVICES = Resource("apiregistration.k8s.io", "v1", "apiservices", namespaced=False)
API_SERVICE = f"{VERSION}.{ASK_GROUP}"
SERVICE = "fathom-ask"
SERVER_NAME = f"{SERVICE}.{SYSTEM_NAMESPACE}.svc"  # As kube-apiserver expects it in our certificate.
ASK_ROLE = "fathom-ask"  # For people.
SERVER_ROLE = "fathom-ask-server"  # For the process.
READER = "extension-apiserver-authentication-reader"  # A Role of kube-system that every Kubernetes has.
PORT_NAME = "https"
IN_CLUSTER = "a Service of pods"


class BadAskAddress(ValueError):
    """The message is one line for the user."""


class AskAddress(msgspec.Struct, frozen=True):
    """Where the cluster's API server reaches us."""

    host: str  # '': we are a pod, which the Service selects.
    port: int

    @property
    def in_cluster(self) -> bool:
        return not self.host

    @property
    def text(self) -> str:
        return IN_CLUSTER if self.in_cluster else _joined(self.host, self.port)


def parse_ask_address(text: str) -> AskAddress:
    """'192.0.2.10:6445', '[2001:db8::1]:6445', ':6445'. Raises BadAskAddress."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise BadAskAddress(f"--ask-api must be ADDRESS:PORT, or :PORT in a pod, not {text!r}")
    host = host.removeprefix("[").removesuffix("]")
    if host:
        _check_reachable(host)
    return AskAddress(host, int(port))


def _check_reachable(host: str) -> None:
    """Kubernetes refuses the same addresses in endpoints."""
    try:
        address = ip_address(host)
    except ValueError:
        raise BadAskAddress(
            f"--ask-api: {host!r} is no IP address: endpoints of a Service need one"
        ) from None
    if address.is_loopback or address.is_link_local or address.is_unspecified or address.is_multicast:
        raise BadAskAddress(
            f"--ask-api: {host} is not an address that the cluster's API server can connect to:"
            " give one of this machine's network"
        )


def address_of(endpoints: Obj) -> str:
    """Where an EndpointSlice leads to: 'ADDRESS:PORT'."""
    addresses = [each for endpoint in endpoints.get("endpoints") or () for each in endpoint["addresses"]]
    ports = [port.get("port") for port in endpoints.get("ports") or ()]
    return _joined(addresses[0], ports[0]) if addresses and ports else "nowhere"


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def serving_questions() -> list[Right]:
    """What the process does in the cluster to serve it."""
    return [
        Right(
            ("create",), "authorization.k8s.io", "subjectaccessreviews",
            "kubectl gets no answers: nobody says who may read what", True,
        ),
        Right(
            ("get",), "", "configmaps", "kubectl gets no answers: nobody says whom to believe", True,
            AUTHENTICATION_NAMESPACE, AUTHENTICATION,
        ),
        Right(
            ("get", "patch"), "apiregistration.k8s.io", "apiservices",
            "kubectl gets no answers: the server does not know our certificate", True,
            object_name=API_SERVICE,
        ),
    ]  # fmt: skip


def ask_objects(address: AskAddress, *, account: str, labels: dict[str, str]) -> list[Obj]:
    """In an order in which they can be created."""
    return [
        *_roles(account, labels),
        *_service(address, labels),
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": _meta(API_SERVICE, labels),
            "spec": {
                "group": ASK_GROUP,
                "version": VERSION,
                "service": {"name": SERVICE, "namespace": SYSTEM_NAMESPACE, "port": 443},
                "groupPriorityMinimum": 100,  # Behind Kubernetes' own groups, where names are equal.
                "versionPriority": 15,
            },
        },
    ]


def is_for_questions(obj: Obj) -> bool:
    """Whether it is one of these."""
    names = {SERVICE, ASK_ROLE, SERVER_ROLE, API_SERVICE}
    return obj["metadata"]["name"] in names and obj["kind"] != "ServiceAccount"


def _service(address: AskAddress, labels: dict[str, str]) -> list[Obj]:
    port = {"name": PORT_NAME, "port": 443, "protocol": "TCP", "targetPort": address.port}
    service: Obj = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _meta(SERVICE, labels, SYSTEM_NAMESPACE),
        "spec": {"ports": [port]},
    }
    if address.in_cluster:
        service["spec"]["selector"] = {"app.kubernetes.io/name": labels["app.kubernetes.io/name"]}
        return [service]
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": _meta(SERVICE, {**labels, "kubernetes.io/service-name": SERVICE}, SYSTEM_NAMESPACE),
        "addressType": f"IPv{ip_address(address.host).version}",
        "endpoints": [{"addresses": [address.host], "conditions": {"ready": True}}],
        "ports": [{"name": PORT_NAME, "port": address.port, "protocol": "TCP"}],
    }
    return [service, endpoints]


def _roles(account: str, labels: dict[str, str]) -> list[Obj]:
    """The process may do three things. People may ask where they have `view`, `edit` or `admin`."""
    rights = serving_questions()
    for_people = {**labels, f"{RBAC_GROUP}/aggregate-to-view": "true"}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": SYSTEM_NAMESPACE}
    return [
        _object("ClusterRole", _meta(ASK_ROLE, for_people), rules=_asking()),
        _object("ClusterRole", _meta(SERVER_ROLE, labels), rules=rules_of(rights)),
        _object(
            "ClusterRoleBinding",
            _meta(SERVER_ROLE, labels),
            roleRef={"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": SERVER_ROLE},
            subjects=[subject],
        ),
        _object(
            "RoleBinding",
            _meta(SERVER_ROLE, labels, AUTHENTICATION_NAMESPACE),
            roleRef={"apiGroup": RBAC_GROUP, "kind": "Role", "name": READER},
            subjects=[subject],
        ),
    ]


def _asking() -> list[Obj]:
    rules: dict[tuple[str, ...], list[str]] = {}
    for kind in ASK_KINDS:
        rules.setdefault(kind.verbs, []).append(kind.plural)
    return [
        {"apiGroups": [ASK_GROUP], "resources": sorted(plurals), "verbs": list(verbs)}
        for verbs, plurals in rules.items()
    ]


def _object(kind: str, meta: Obj, **content: object) -> Obj:
    return {"apiVersion": f"{RBAC_GROUP}/v1", "kind": kind, "metadata": meta, **content}


def _meta(name: str, labels: dict[str, str], namespace: str = "") -> Obj:
    return {"name": name, **({"namespace": namespace} if namespace else {}), "labels": dict(labels)}
