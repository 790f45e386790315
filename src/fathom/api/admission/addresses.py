"""Allocates cluster IPs and node ports to Services, each to one Service only.

Each one in use is a key in the store, claimed in the commit that stores the service and released in the
commit that removes it. So no two services share one, with any number of servers, and a crash loses none.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from ipaddress import AddressValueError, IPv4Address, IPv4Network
from itertools import chain

from fathom.api.admission.attempt import CREATE, DELETE, UPDATE, Charge, WriteAttempt
from fathom.api.admission.plugin import Plugin
from fathom.model import causes
from fathom.model.body import Body
from fathom.model.declared import Reads, Writes
from fathom.model.errors import Cause, internal, invalid
from fathom.model.objects import Key, Obj, key_of
from fathom.model.view import View
from fathom.store.protocol import Delete, Expect, Put, Write

SERVICES = "services"
CLAIMS = "serviceclaims.fathom.dev"  # A resource of the store and its views, not of the API.

# Loopback, because a gateway on this machine serves these addresses.
ADDRESSES = IPv4Network("127.96.0.0/12")
KEPT_MAX = 256
NODE_PORTS = range(30000, 32768)  # kube-apiserver's.

TRIES = 64  # At 90 % full, 64 draws miss once in a thousand; then all are tried in order.


class ServiceAddresses(Plugin):
    name = "ServiceAddresses"
    resources = frozenset({SERVICES})
    operations = frozenset({CREATE, UPDATE, DELETE})
    trusted = True
    reads = (
        Reads("Service", ("spec",), "commit"),
        Reads("ServiceClaim", source="commit"),
    )
    writes = (
        Writes("Service", ("spec.clusterIP", "spec.clusterIPs", "spec.ports")),
        Writes("ServiceClaim", ("*",), creates=True, deletes=True),
    )

    def __init__(self, rng: random.Random, addresses: IPv4Network = ADDRESSES) -> None:
        self._rng = rng
        self._addresses = addresses

    def mutate(self, attempt: WriteAttempt, view: View) -> Obj:
        assert attempt.obj is not None
        spec = attempt.obj["spec"]
        if spec.get("type") == "ExternalName":
            return attempt.obj
        if wrong := list(_unsupported_families(spec)):
            raise invalid(group="", kind="Service", name=attempt.name, causes=wrong)
        spec = {**spec}
        if not spec.get("clusterIP"):
            address = self._free_address(view)
            spec |= {"clusterIP": address, "clusterIPs": [address]}
        if _has_node_ports(spec):
            spec["ports"] = self._with_node_ports(attempt, spec.get("ports") or [], view)
        return {**attempt.obj, "spec": spec}

    def validate(self, attempt: WriteAttempt, view: View) -> None:
        if attempt.obj is None:
            return
        wrong = [*self._outside(attempt), *_taken(attempt, view)]
        if wrong:
            raise invalid(group="", kind="Service", name=attempt.name, causes=wrong)

    def charge(self, attempt: WriteAttempt, view: View) -> Sequence[Charge]:
        before, after = dict.fromkeys(_claims(attempt.old)), dict.fromkeys(_claims(attempt.obj))
        if attempt.operation == DELETE or list(before) == list(after):
            return ()
        gained = [claim for claim in after if claim not in before]
        lost = [claim for claim in before if claim not in after]
        owner = Key(attempt.namespace, attempt.name)
        writes: list[Write] = [Put(_key(claim), _body(claim, owner)) for claim in gained]
        writes += [Delete(_key(claim)) for claim in lost]
        return (Charge(tuple(Expect(_key(claim), 0) for claim in gained), tuple(writes)),)

    def release(self, attempt: WriteAttempt, view: View) -> Sequence[Charge]:
        claims = _claims(attempt.old)
        return (Charge((), tuple(Delete(_key(claim)) for claim in claims)),) if claims else ()

    def _free_address(self, view: View) -> str:
        kept = kept_addresses(self._addresses)
        first, count = int(self._addresses.network_address) + kept, self._addresses.num_addresses - kept - 1
        drawn = (self._rng.randrange(count) for _ in range(TRIES))
        for offset in chain(drawn, range(count)):
            address = str(IPv4Address(first + offset))
            if not _is_claimed(view, address):
                return address
        raise internal(f"failed to allocate a serviceIP: range {self._addresses} is full")

    def _with_node_ports(self, attempt: WriteAttempt, ports: list[Obj], view: View) -> list[Obj]:
        taken = {port["nodePort"] for port in ports if port.get("nodePort")}
        done = []
        for port in ports:
            if not port.get("nodePort"):
                number = self._free_port(view, taken)
                taken.add(number)
                port = {**port, "nodePort": number}  # noqa: PLW2901 - the caller's is left as it was
            done.append(port)
        return done

    def _outside(self, attempt: WriteAttempt) -> Iterator[Cause]:
        """Addresses and ports outside of the ranges. A service keeps those it has, even if the range has
        changed since."""
        assert attempt.obj is not None
        spec, before = attempt.obj["spec"], _claims(attempt.old)
        for index, address in enumerate(spec.get("clusterIPs") or ()):
            if address != "None" and address not in before and not self._is_ours(address):
                why = f"failed to allocate IP {address}: the provided IP is not in the valid range. "
                why += f"The range of valid IPs is {self._addresses}"
                yield causes.invalid("spec.clusterIPs", spec["clusterIPs"] if index else [address], why)
        yield from _wrong_ports(spec)

    def _is_ours(self, address: str) -> bool:
        return _is_address(address) and IPv4Address(address) in self._addresses

    def _free_port(self, view: View, taken: set[int]) -> int:
        start = self._rng.randrange(len(NODE_PORTS))
        for step in range(len(NODE_PORTS)):
            port = NODE_PORTS[(start + step) % len(NODE_PORTS)]
            if port not in taken and not _is_claimed(view, str(port)):
                return port
        raise internal("failed to allocate a nodePort: range is full")


def _has_node_ports(spec: Obj) -> bool:
    if spec.get("type") == "LoadBalancer":
        return spec.get("allocateLoadBalancerNodePorts") is not False
    return spec.get("type") == "NodePort"


def _claims(service: Obj | None) -> list[str]:
    """What a service has allocated: addresses and port numbers, as text."""
    spec = (service or {}).get("spec") or {}
    if spec.get("type") == "ExternalName":
        return []
    addresses = [ip for ip in spec.get("clusterIPs") or () if _is_address(ip)]
    ports = [str(port["nodePort"]) for port in spec.get("ports") or () if port.get("nodePort")]
    return list(dict.fromkeys(addresses + ports))


def _is_address(text: str) -> bool:
    try:
        IPv4Address(text)
    except AddressValueError:
        return False
    return True


def kept_addresses(addresses: IPv4Network) -> int:
    """How many of the first addresses are reserved for the cluster's own Services."""
    return min(KEPT_MAX, addresses.num_addresses // 2)


def _unsupported_families(spec: Obj) -> Iterator[Cause]:
    """Families that an IPv4 cluster cannot provide. A headless service without a selector may point
    anywhere."""
    if spec.get("clusterIP") == "None" and not spec.get("selector"):
        return
    if spec.get("ipFamilyPolicy") == "RequireDualStack":
        why = "this cluster is not configured for dual-stack services"
        yield causes.invalid("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], why)
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        if family == "IPv6":
            yield causes.invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")


def _wrong_ports(spec: Obj) -> Iterator[Cause]:
    for index, port in enumerate(spec.get("ports") or ()):
        number = port.get("nodePort")
        if number and number not in NODE_PORTS:
            why = f"provided port is not in the valid range. The range of valid ports is {_range()}"
            yield causes.invalid(f"spec.ports[{index}].nodePort", number, why)


def _range() -> str:
    return f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"


def _taken(attempt: WriteAttempt, view: View) -> Iterator[Cause]:
    before, owner = set(_claims(attempt.old)), Key(attempt.namespace, attempt.name)
    for claim in _claims(attempt.obj):
        seen = view.get(CLAIMS, Key("", claim))
        if claim in before or seen is None or key_of(seen.obj["owner"]) == owner:
            continue
        if claim.isdigit():
            why = "provided port is already allocated"
            yield causes.invalid("spec.ports[0].nodePort", int(claim), why)
        else:
            why = f"failed to allocate IP {claim}: provided IP is already allocated"
            yield causes.invalid("spec.clusterIPs", [claim], why)


def _is_claimed(view: View, claim: str) -> bool:
    return view.get(CLAIMS, Key("", claim)) is not None


def _key(claim: str) -> str:
    return f"/registry/{CLAIMS}/{claim}"


def _body(claim: str, owner: Key) -> Body:
    return Body(
        {
            "kind": "ServiceClaim",
            "apiVersion": "fathom.dev/v1alpha1",
            "metadata": {"name": claim},
            "owner": {"metadata": {"namespace": owner.namespace, "name": owner.name}},
        }
    )
