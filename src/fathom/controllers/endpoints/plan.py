"""Which addresses a Service has, from the readiness of its pods: as EndpointSlices, and as Endpoints. Pure.

"Equal, so nothing to do" is right only against the current state:

    1. A pod is ready, its address is written. 2. The pod goes; our view of the slices is from before 1.
    3. None wanted, none there: equal. The address stays for ever.

Two things prevent that: the loop waits until our own writes are visible, and a change of the slices
themselves wakes the Service too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from fathom.cache.needs import Need, NoOlderThan
from fathom.control.ownership import child_name, controller_of, owned
from fathom.control.plan import NOTHING, OWN_WRITES, Create, Delete, Patch, Plan, contains, target
from fathom.controllers.pod_states import has_ended, is_ready
from fathom.model.freshness import ENDPOINTS_FRESH_S
from fathom.model.objects import Key, Obj, is_deleting, key_of, labels_of, lookup, metadata, uid_of
from fathom.model.well_known import SERVICE_NAME_LABEL

MANAGED_BY, MANAGER = "endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io"
HEADLESS = "service.kubernetes.io/headless"
OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
ENDPOINTS_BY, ENDPOINTS_MANAGER = "endpoints.kubernetes.io/managed-by", "endpoint-controller"
# Values of a Service's trafficDistribution that prefer near endpoints.
NEAR = frozenset({"PreferClose", "PreferSameZone", "PreferSameNode"})

SLICE_ENDPOINTS_MAX = 100  # Kubernetes' default.
ENDPOINTS_MAX = 1000  # Total limit of the Endpoints kind, as in Kubernetes.

NEEDS: tuple[Need, ...] = (OWN_WRITES, NoOlderThan(ENDPOINTS_FRESH_S, ("Service", "Pod", "EndpointSlice")))

Ports = tuple[tuple[tuple[str, object], ...], ...]  # Each port's fields, in a hashable form.


class PortGroup(msgspec.Struct, frozen=True):
    """What the endpoints of one slice have in common."""

    family: str  # IPv4, IPv6
    ports: Ports


def has_selector(service: Obj) -> bool:
    """Without a selector, or as an ExternalName, its endpoints are not ours to write."""
    if lookup(service, "spec", "type") == "ExternalName":
        return False
    return bool(lookup(service, "spec", "selector"))


def selects(service: Obj, pod: Obj) -> bool:
    selector, labels = lookup(service, "spec", "selector") or {}, labels_of(pod)
    return bool(selector) and all(labels.get(name) == value for name, value in selector.items())


def families_of(service: Obj) -> list[str]:
    return list(lookup(service, "spec", "ipFamilies") or ("IPv4",))


def address_of(pod: Obj, family: str) -> str:
    listed = [str(pod_ip.get("ip")) for pod_ip in lookup(pod, "status", "podIPs") or ()]
    first = lookup(pod, "status", "podIP")
    addresses = [*([str(first)] if first else ()), *listed]
    return next((ip for ip in addresses if (":" in ip) == (family == "IPv6")), "")


def ports_of(service: Obj, pod: Obj) -> Ports:
    """The ports as this pod has them: a port name may mean another number in every pod. A port that the pod
    does not have is left out."""
    ports, named = [], _named_ports(pod)
    for port in lookup(service, "spec", "ports") or ():
        wanted = port.get("targetPort") or port.get("port")
        number = wanted if isinstance(wanted, int) else named.get((wanted, port.get("protocol") or "TCP"))
        if number is not None:
            shown = {
                "name": port.get("name") or "",
                "port": number,
                "protocol": port.get("protocol") or "TCP",
                "appProtocol": port.get("appProtocol"),
            }
            ports.append(tuple((name, value) for name, value in shown.items() if value is not None))
    return tuple(ports)


def _named_ports(pod: Obj) -> dict[tuple[object, str], int]:
    """By name and protocol; of several with one name, the first."""
    named: dict[tuple[object, str], int] = {}
    for container in _containers(pod):
        for port in container.get("ports") or ():
            if name := port.get("name"):
                named.setdefault((name, port.get("protocol") or "TCP"), int(port["containerPort"]))
    return named


def _containers(pod: Obj) -> list[Obj]:
    sidecars = [
        init_container
        for init_container in lookup(pod, "spec", "initContainers") or ()
        if init_container.get("restartPolicy") == "Always"
    ]
    return [*(lookup(pod, "spec", "containers") or ()), *sidecars]


def endpoint_of(service: Obj, pod: Obj, *, address: str, zone: str) -> Obj:
    serving, terminating = is_ready(pod), is_deleting(pod)
    publishes_all = bool(lookup(service, "spec", "publishNotReadyAddresses"))
    endpoint: Obj = {
        "addresses": [address],
        "conditions": {
            "ready": publishes_all or (serving and not terminating),
            "serving": serving,
            "terminating": terminating,
        },
        "targetRef": _reference(pod),
    }
    if node := lookup(pod, "spec", "nodeName"):
        endpoint["nodeName"] = node
    if zone:
        endpoint["zone"] = zone
    if hostname := _hostname(service, pod):
        endpoint["hostname"] = hostname
    if endpoint["conditions"]["ready"] and (hints := _hints(service, endpoint)):
        endpoint["hints"] = hints
    return endpoint


def _hostname(service: Obj, pod: Obj) -> str:
    spec = pod.get("spec") or {}
    return str(spec.get("hostname") or "") if spec.get("subdomain") == metadata(service)["name"] else ""


def _hints(service: Obj, endpoint: Obj) -> Obj:
    """The zones or nodes that should use it, if the Service prefers near endpoints."""
    distribution, hints = lookup(service, "spec", "trafficDistribution"), dict[str, list[Obj]]()
    if distribution in NEAR and "zone" in endpoint:
        hints["forZones"] = [{"name": endpoint["zone"]}]
    if distribution == "PreferSameNode" and "nodeName" in endpoint:
        hints["forNodes"] = [{"name": endpoint["nodeName"]}]
    return hints


def _reference(pod: Obj) -> Obj:
    key = key_of(pod)
    return {"kind": "Pod", "namespace": key.namespace, "name": key.name, "uid": uid_of(pod)}


def wanted_endpoints(
    service: Obj, pods: Sequence[Obj], zone_of: Callable[[str], str]
) -> dict[PortGroup, dict[str, Obj]]:
    """By port group, and by the pod's UID."""
    groups: dict[PortGroup, dict[str, Obj]] = {}
    for family in families_of(service):
        for pod in pods:
            address = address_of(pod, family)
            if not address or has_ended(pod) or not selects(service, pod):
                continue
            zone = zone_of(str(lookup(pod, "spec", "nodeName") or ""))
            group = PortGroup(family, ports_of(service, pod))
            endpoint = endpoint_of(service, pod, address=address, zone=zone)
            groups.setdefault(group, {})[uid_of(pod)] = endpoint
    return groups


# Slices.


def plan_slices(
    service: Obj,
    pods: Sequence[Obj],
    slices: Sequence[Obj],
    *,
    strays: Sequence[Obj] = (),
    zone_of: Callable[[str], str] = lambda node: "",
    named: Callable[[str], bool] = lambda name: False,
) -> Plan:
    """An endpoint stays in its present slice: watchers of slices then read one change, not all of them.
    `strays`: slices of an earlier Service of this name that was deleted without them. They go, as in
    Kubernetes: readers of slices find them by the name of the Service, and nobody else keeps them true."""
    if is_deleting(service) or not has_selector(service):
        return NOTHING
    mine = [
        endpoint_slice
        for endpoint_slice in slices
        if labels_of(endpoint_slice).get(MANAGED_BY) == MANAGER and not is_deleting(endpoint_slice)
    ]
    creates, patches, used = list[Create](), list[Patch](), list[str]()
    nothing = group_of(mine[0]) if mine else PortGroup(families_of(service)[0], ports_of(service, {}))
    for group, wanted in (wanted_endpoints(service, pods, zone_of) or {nothing: {}}).items():
        of_group = [endpoint_slice for endpoint_slice in mine if group_of(endpoint_slice) == group]
        kept, rest = _kept(of_group, wanted)
        _fill(kept, rest)
        for endpoint_slice in of_group:
            content = kept[metadata(endpoint_slice)["name"]]
            if content or endpoint_slice is _last_resort(of_group, kept):
                used.append(metadata(endpoint_slice)["name"])
                patches += _changed(service, endpoint_slice, content)
        if not of_group or rest:
            creates += _created(service, group, rest, named=named, before=creates)
    deletes = tuple(
        Delete(target("EndpointSlice", endpoint_slice))
        for endpoint_slice in (*mine, *strays)
        if metadata(endpoint_slice)["name"] not in used and not is_deleting(endpoint_slice)
    )
    return Plan(
        creates=tuple(creates),
        patches=tuple(patches),
        deletes=deletes,
        needs=NEEDS if deletes else (),
        why="the endpoints changed" if creates or patches or deletes else "",
    )


def stray_of(endpoint_slice: Obj, manager: str) -> Key | None:
    """The Service that a slice of this manager names, if the slice belongs to nobody."""
    labels = labels_of(endpoint_slice)
    if controller_of(endpoint_slice) is not None or labels.get(MANAGED_BY) != manager:
        return None
    name = labels.get(SERVICE_NAME_LABEL)
    return None if name is None else Key(key_of(endpoint_slice).namespace, name)


def group_of(endpoint_slice: Obj) -> PortGroup:
    order = ("name", "port", "protocol", "appProtocol")
    ports = tuple(
        tuple((name, port[name]) for name in order if port.get(name) is not None)
        for port in endpoint_slice.get("ports") or ()
    )
    return PortGroup(str(endpoint_slice.get("addressType")), ports)


def _kept(slices: Sequence[Obj], wanted: Mapping[str, Obj]) -> tuple[dict[str, list[Obj]], list[Obj]]:
    """The endpoints that stay, by slice; and those without a slice yet."""
    unplaced = dict(wanted)
    kept: dict[str, list[Obj]] = {}
    for endpoint_slice in slices:
        uids = [
            str(lookup(endpoint, "targetRef", "uid")) for endpoint in endpoint_slice.get("endpoints") or ()
        ]
        kept[metadata(endpoint_slice)["name"]] = [unplaced.pop(uid) for uid in uids if uid in unplaced]
    return kept, list(unplaced.values())


def _fill(kept: Mapping[str, list[Obj]], rest: list[Obj]) -> None:
    """Fills the fullest slices first, so that as few as possible change and the emptiest can be deleted."""
    for content in sorted(kept.values(), key=len, reverse=True):
        room = SLICE_ENDPOINTS_MAX - len(content)
        content.extend(rest[:room])
        del rest[:room]


def _last_resort(slices: Sequence[Obj], kept: Mapping[str, list[Obj]]) -> Obj | None:
    """If all slices are empty, one stays: it shows that the Service has no endpoints."""
    return slices[0] if slices and not any(kept.values()) else None


def _changed(service: Obj, endpoint_slice: Obj, content: list[Obj]) -> list[Patch]:
    change: Obj = {}
    if (endpoint_slice.get("endpoints") or []) != content:
        change["endpoints"] = content
    if labels := _relabelled(endpoint_slice, _labels(service)):
        change["metadata"] = {"labels": labels}
    return [Patch(target("EndpointSlice", endpoint_slice), change)] if change else []


def _relabelled(obj: Obj, labels: Mapping[str, str]) -> dict[str, str | None]:
    """As a merge patch: the labels it should have, without those its Service lost. {} if nothing changes."""
    current = labels_of(obj)
    return {} if current == labels else {**dict.fromkeys(current), **labels}


def _created(
    service: Obj,
    group: PortGroup,
    rest: Sequence[Obj],
    *,
    named: Callable[[str], bool],
    before: Sequence[Create],
) -> list[Create]:
    chunks = [
        list(rest[at : at + SLICE_ENDPOINTS_MAX]) for at in range(0, max(1, len(rest)), SLICE_ENDPOINTS_MAX)
    ]
    stem = f"{metadata(service)['name']}-{group.family.lower()}"
    taken = [create.obj["metadata"]["name"] for create in before]
    names: list[str] = []
    number = 0
    while len(names) < len(chunks):
        name = child_name(stem, number)
        if name not in taken and not named(name):
            names.append(name)
        number += 1
    return [
        Create("EndpointSlice", _slice(service, group, name, chunk))
        for name, chunk in zip(names, chunks, strict=True)
    ]


def _slice(service: Obj, group: PortGroup, name: str, endpoints: list[Obj]) -> Obj:
    meta = {"name": name, "namespace": key_of(service).namespace, "labels": _labels(service)}
    endpoint_slice: Obj = {
        "metadata": meta,
        "addressType": group.family,
        "ports": [dict(port) for port in group.ports],
        "endpoints": endpoints,
    }
    return owned(endpoint_slice, service)


def _labels(service: Obj) -> dict[str, str]:
    headless = {HEADLESS: ""} if lookup(service, "spec", "clusterIP") == "None" else {}
    name = metadata(service)["name"]
    return {**labels_of(service), **headless, SERVICE_NAME_LABEL: name, MANAGED_BY: MANAGER}


# The older Endpoints kind.


def plan_endpoints(service: Obj, pods: Sequence[Obj], endpoints: Obj | None) -> Plan:
    if is_deleting(service) or not has_selector(service):
        return NOTHING
    subsets, complete = subsets_of(service, pods)
    labels = {**labels_of(service), ENDPOINTS_BY: ENDPOINTS_MANAGER}
    labels.pop(HEADLESS, None)
    if lookup(service, "spec", "clusterIP") == "None":
        labels[HEADLESS] = ""
    notes = {OVER_CAPACITY: None if complete else "truncated"}
    if endpoints is None:
        key = key_of(service)
        meta: Obj = {"name": key.name, "namespace": key.namespace, "labels": labels}
        obj = {"metadata": meta if complete else {**meta, "annotations": notes}, "subsets": subsets}
        return Plan(creates=(Create("Endpoints", owned(obj, service)),), why="create the Endpoints")
    change = _endpoints_changed(endpoints, subsets, labels, notes)
    return (
        Plan(patches=(Patch(target("Endpoints", endpoints), change),), why="the endpoints changed")
        if change
        else NOTHING
    )


def _endpoints_changed(
    endpoints: Obj, subsets: list[Obj], labels: dict[str, str], notes: Mapping[str, str | None]
) -> Obj:
    change: Obj = {} if (endpoints.get("subsets") or []) == subsets else {"subsets": subsets or None}
    meta: Obj = {}
    if relabelled := _relabelled(endpoints, labels):
        meta["labels"] = relabelled
    if not contains(metadata(endpoints).get("annotations") or {}, dict(notes)):
        meta["annotations"] = notes
    return {**change, "metadata": meta} if meta else change


def subsets_of(service: Obj, pods: Sequence[Obj]) -> tuple[list[Obj], bool]:
    """Subsets by ports; and whether all endpoints fitted."""
    family = families_of(service)[0]
    publishes_all = bool(lookup(service, "spec", "publishNotReadyAddresses"))
    groups: dict[Ports, tuple[list[Obj], list[Obj]]] = {}
    number = 0
    for pod in sorted(pods, key=lambda pod: not is_ready(pod)):
        address = address_of(pod, family)
        if not address or has_ended(pod) or is_deleting(pod) or not selects(service, pod):
            continue
        number += 1
        if number > ENDPOINTS_MAX:
            break
        shown: Obj = {"ip": address, "targetRef": _reference(pod)}
        if node := lookup(pod, "spec", "nodeName"):
            shown["nodeName"] = node
        if hostname := _hostname(service, pod):
            shown["hostname"] = hostname
        ready = publishes_all or is_ready(pod)
        groups.setdefault(ports_of(service, pod), ([], []))[0 if ready else 1].append(shown)
    return [_subset(ports, *groups[ports]) for ports in sorted(groups, key=repr)], number <= ENDPOINTS_MAX


def _subset(ports: Ports, ready: list[Obj], waiting: list[Obj]) -> Obj:
    subset: Obj = {}
    if ready:
        subset["addresses"] = sorted(ready, key=_order)
    if waiting:
        subset["notReadyAddresses"] = sorted(waiting, key=_order)
    if ports:
        subset["ports"] = [{name: value for name, value in port if name != "name" or value} for port in ports]
    return subset


def _order(address: Obj) -> tuple[str, str]:
    return str(address["ip"]), str(address["targetRef"]["uid"])
