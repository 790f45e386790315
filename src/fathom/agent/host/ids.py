"""The user and groups that a container runs as. Pure.

Every pod has 65,536 user and group ids of its own, which no other pod and no user of the machine has: the
number N of a pod's `securityContext` is FIRST + N on the machine.

A container that names ids sees those that it named: it runs in a user namespace. One that names none, or that
declares ports below 1024 (which no user namespace may bind on the machine's network), sees the machine's
numbers. Either way files and processes belong to the same ids.

Without root pods run as the agent's user, and pods that ask for another are refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import msgspec

from fathom.agent.host.environment import Unresolved
from fathom.model.objects import Obj, key_of, lookup, uid_of

# systemd's list of ids has no user from 0x70000000 to 0x7FFDFFFF. Earlier versions derived the first of these
# from pods' addresses.
IDS_FROM, IDS_TO = 0x71000000, 0x7FFE0000
IDS_PER_POD = 1 << 16  # As with Kubernetes' `hostUsers: false`.
NOBODY_ASKED = 65532  # The user of a pod that names none: not root, nor a distribution's user.
OWN_GROUP = IDS_PER_POD - 1  # The group of all containers of a pod that protects its files.
LOW_PORTS = 1024


class HostIds(msgspec.Struct, frozen=True):
    """Ids of the machine that its operator allows pods to use."""

    uids: frozenset[int] = frozenset()
    gids: frozenset[int] = frozenset()


class Identity(msgspec.Struct, frozen=True):
    uid: int  # As the container sees them.
    gid: int
    groups: tuple[int, ...]
    host_uid: int  # As the machine sees them.
    host_gid: int
    uid_map: str = ""  # Of its user namespace; '': none.
    gid_map: str = ""


class AskedIds(msgspec.Struct, frozen=True):
    """One id of a pod's spec."""

    field: str
    number: int


class WantedIds(msgspec.Struct, frozen=True):
    user: AskedIds | None
    group: AskedIds | None
    groups: tuple[AskedIds, ...]

    @property
    def gids(self) -> tuple[AskedIds, ...]:
        return (*((self.group,) if self.group is not None else ()), *self.groups)


def parse_host_ids(text: str) -> HostIds:
    """`uid:1000,gid:44`. Raises ValueError."""
    ids: dict[str, set[int]] = {"uid": set(), "gid": set()}
    for item in filter(None, (part.strip() for part in text.split(","))):
        kind, _, number = item.partition(":")
        if kind not in ids or not number.isdecimal():
            raise ValueError(f"{item!r} must read uid:NUMBER or gid:NUMBER")
        if int(number) >= IDS_FROM:
            raise ValueError(f"{item!r}: ids from {IDS_FROM} on are reserved for pods")
        ids[kind].add(int(number))
    return HostIds(frozenset(ids["uid"]), frozenset(ids["gid"]))


def ids_of_agent(pod: Obj, container: Obj) -> None:
    """Raises `Unresolved` if a pod asks for another user than the agent's: the agent is not root and cannot
    switch."""
    wanted, uid, gid = _wanted(pod, container), os.getuid(), os.getgid()
    _check_root(pod, container, wanted.user.number if wanted.user is not None else uid)
    users = [wanted.user] if wanted.user is not None else []
    for named, own in (*((entry, uid) for entry in users), *((entry, gid) for entry in wanted.gids)):
        if named.number != own:
            raise Unresolved(
                f"{named.field}: {named.number} is refused: the agent does not run as root, so its pods can "
                f"only run as its own user {uid} and group {gid}"
            )


def identity_of(
    pod: Obj, container: Obj, first: int, allowed: HostIds, *, namespaces: bool, own_group: bool = False
) -> Identity:
    """For an agent that is root. `first`: the pod's first own id. `namespaces`: user namespaces work here.
    `own_group`: add the pod's own group. Raises `Unresolved`."""
    wanted = _wanted(pod, container)
    if wanted.user is not None:
        _check(wanted.user, allowed.uids, "uid")
    for requested in wanted.gids:
        _check(requested, allowed.gids, "gid")
    user = wanted.user.number if wanted.user is not None else NOBODY_ASKED
    group = wanted.group.number if wanted.group is not None else user
    _check_root(pod, container, user)
    host_uid, host_gid = _on_host(user, first, allowed.uids), _on_host(group, first, allowed.gids)
    own_groups = (OWN_GROUP,) if own_group else ()
    groups = tuple(dict.fromkeys((*(requested.number for requested in wanted.groups), *own_groups)))
    if not namespaces or not _shows_ids(wanted, container) or host_uid == 0:
        host_groups = tuple(_on_host(gid, first, allowed.gids) for gid in groups)
        return Identity(host_uid, host_gid, host_groups, host_uid, host_gid)
    return Identity(
        user, group, groups, host_uid, host_gid,
        uid_map=_map(first, {user} & allowed.uids), gid_map=_map(first, {group, *groups} & allowed.gids),
    )  # fmt: skip


def fs_group_of(pod: Obj, first: int, allowed: HostIds) -> int | None:
    """The group that owns the pod's volumes, as the machine sees it."""
    number = lookup(pod, "spec", "securityContext", "fsGroup")
    return _on_host(number, first, allowed.gids) if number is not None else None


def may_bind_low(container: Obj) -> bool:
    """Whether it may bind ports below 1024: as in container runtimes, unless the pod drops that."""
    added, dropped = _capabilities(container)
    return "NET_BIND_SERVICE" in added or not dropped & {"ALL", "NET_BIND_SERVICE"}


def _shows_ids(wanted: WantedIds, container: Obj) -> bool:
    """Whether it sees its own numbers: it named some, and does not declare that it needs low ports."""
    if wanted.user is None and not wanted.gids:
        return False
    named = any(0 < port < LOW_PORTS for port in _ports(container))
    low = named or "NET_BIND_SERVICE" in _capabilities(container)[0]
    return not (low and may_bind_low(container))


def _ports(container: Obj) -> Iterator[int]:
    """Ports that the container declares or that its probes use."""
    yield from (port.get("containerPort") or 0 for port in container.get("ports") or ())
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        for action in ("httpGet", "tcpSocket"):
            port = lookup(container, name, action, "port")
            yield port if isinstance(port, int) else 0


def _capabilities(container: Obj) -> tuple[set[str], set[str]]:
    """Capabilities added and dropped."""
    capabilities = (container.get("securityContext") or {}).get("capabilities") or {}
    added, dropped = (
        {str(capability).upper().removeprefix("CAP_") for capability in capabilities.get(field) or ()}
        for field in ("add", "drop")
    )
    return added, dropped


def _wanted(pod: Obj, container: Obj) -> WantedIds:
    common, own = lookup(pod, "spec", "securityContext") or {}, container.get("securityContext") or {}
    first = any(
        init_container is container or init_container == container
        for init_container in lookup(pod, "spec", "initContainers") or ()
    )
    inner = f"spec.{'initContainers' if first else 'containers'}[{container['name']}].securityContext"

    def effective(name: str) -> AskedIds | None:
        for field, context in ((inner, own), ("spec.securityContext", common)):
            if context.get(name) is not None:
                return AskedIds(f"{field}.{name}", context[name])
        return None

    listed = [("supplementalGroups", gid) for gid in common.get("supplementalGroups") or ()]
    listed += [("fsGroup", common["fsGroup"])] if common.get("fsGroup") is not None else []
    groups = tuple(AskedIds(f"spec.securityContext.{name}", number) for name, number in listed)
    return WantedIds(effective("runAsUser"), effective("runAsGroup"), groups)


def _check(named: AskedIds, allowed: Iterable[int], kind: str) -> None:
    if not 0 <= named.number < IDS_PER_POD and named.number not in allowed:
        raise Unresolved(
            f"{named.field}: {named.number} is refused: a pod has the ids 0 to {IDS_PER_POD - 1} of its own; "
            f"an id of the machine must be allowed on the node with --allow-host-ids {kind}:{named.number}"
        )


def _check_root(pod: Obj, container: Obj, user: int) -> None:
    """Enforce runAsNonRoot, with kubelet's message."""
    own, common = container.get("securityContext") or {}, lookup(pod, "spec", "securityContext") or {}
    if own.get("runAsNonRoot", common.get("runAsNonRoot")) and user == 0:
        key = key_of(pod)
        where = f'(pod: "{key.name}_{key.namespace}({uid_of(pod)})", container: {container["name"]})'
        raise Unresolved(f"container's runAsUser breaks non-root policy {where}")


def _on_host(number: int, first: int, allowed: Iterable[int]) -> int:
    return number if number in allowed else first + number


def _map(first: int, of_host: Iterable[int]) -> str:
    """`uid_map`: all of the pod's own ids, except those that stay the machine's."""
    return "\n".join(
        f"{inside} {outside} {count}" for inside, outside, count in _pieces(first, sorted(of_host))
    )


def _pieces(first: int, of_host: list[int]) -> Iterator[tuple[int, int, int]]:
    at = 0
    for number in of_host:
        if at < min(number, IDS_PER_POD):
            yield at, first + at, min(number, IDS_PER_POD) - at
        yield number, number, 1
        at = number + 1
    if at < IDS_PER_POD:
        yield at, first + at, IDS_PER_POD - at
