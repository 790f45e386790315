"""A container's environment, from its spec and the objects that it refers to. Pure.

As in Kubernetes: services first, then `envFrom`, then `env` in order; `$(NAME)` refers to an earlier
variable, `$$(NAME)` is the literal text. POD_IP and similar variables are always set.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping

import msgspec

from fathom.agent.container_views import containers_of
from fathom.agent.variable_expansion import TOTAL_CHARS_MAX, ExpandedTooLong, expand
from fathom.model.objects import Key, Obj, key_of, labels_of, lookup, metadata, uid_of
from fathom.model.quantity import parse

_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


class Unresolved(Exception):
    """An object that the container refers to is missing; the message is for the pod's status."""


class Surroundings(msgspec.Struct, frozen=True):
    """Objects and addresses that a starting container may refer to."""

    pod: Obj
    pod_ip: str
    host_ip: str
    config_maps: Mapping[str, Obj | None] = {}  # By name; None: not found.
    secrets: Mapping[str, Obj | None] = {}
    services: tuple[Obj, ...] = ()
    allocatable: Mapping[str, str] = {}  # Defaults of limits.
    base: Mapping[str, str] = {}  # PATH and LANG.
    env_files: Mapping[tuple[str, str], Mapping[str, str]] = {}  # Variables, by volume and path.


def environment(container: Obj, around: Surroundings) -> dict[str, str]:
    """Raises `Unresolved`."""
    key = key_of(around.pod)
    env = {
        **around.base,
        "HOSTNAME": hostname_of(around.pod),
        **service_variables(around.services, key.namespace, links=_has_links(around.pod)),
        "POD_IP": around.pod_ip,
        "POD_NAME": key.name,
        "POD_NAMESPACE": key.namespace,
        "NODE_NAME": str(lookup(around.pod, "spec", "nodeName") or ""),
        "HOST_IP": around.host_ip,
    }
    size = 0
    for given in _given(container, around, env):
        # Also what is set again and again: each time is work.
        size += sum(len(name) + len(value) for name, value in given.items())
        if size > TOTAL_CHARS_MAX:
            raise Unresolved(
                f"the environment has more than {TOTAL_CHARS_MAX} characters: no program can start"
            )
        env |= given
    if bad := next((name for name, value in env.items() if "\0" in value), None):
        raise Unresolved(f"env {bad}: its value has a NUL byte, which no variable can hold")
    return env


def _given(container: Obj, around: Surroundings, env: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Variables in the order in which they are set. `env`: those before."""
    for source in container.get("envFrom") or ():
        yield _from_whole(source, around)
    for variable in container.get("env") or ():
        value = _value(variable, container, around, env)
        if value is not None:
            yield {str(variable["name"]): value}


def hostname_of(pod: Obj) -> str:
    """The pod's hostname, cut to 63 characters as kubelet does."""
    name = str(lookup(pod, "spec", "hostname") or key_of(pod).name)
    return name[:63].rstrip("-.")


def hosts_file(pod: Obj, ip: str) -> str:
    """A pod's own /etc/hosts, so that a program can resolve its own hostname."""
    names = [hostname_of(pod)]
    if below := lookup(pod, "spec", "subdomain"):
        names.insert(0, f"{names[0]}.{below}.{key_of(pod).namespace}.svc.cluster.local")
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback", f"{ip} {' '.join(names)}"]
    for alias in lookup(pod, "spec", "hostAliases") or ():
        lines.append(f"{alias['ip']} {' '.join(alias.get('hostnames') or ())}")
    return "\n".join(lines) + "\n"


def _has_links(pod: Obj) -> bool:
    return lookup(pod, "spec", "enableServiceLinks") is not False


def _value(variable: Obj, container: Obj, around: Surroundings, env: Mapping[str, str]) -> str | None:
    source = variable.get("valueFrom")
    if not source:
        try:
            return expand(str(variable.get("value") or ""), env)
        except ExpandedTooLong as error:
            raise Unresolved(f"env {variable['name']} {error}") from None
    if reference := source.get("fieldRef"):
        return field_of(str(reference.get("fieldPath")), around)
    if reference := source.get("resourceFieldRef"):
        return resource_of(reference, container, around)
    if reference := source.get("configMapKeyRef"):
        return _key_of("configmap", reference, around.config_maps)
    if reference := source.get("secretKeyRef"):
        return _key_of("secret", reference, around.secrets)
    if reference := source.get("fileKeyRef"):
        return _from_file(reference, around)
    raise Unresolved(
        f"env {variable.get('name')}: {', '.join(sorted(source))} is not supported by this agent"
    )


def _key_of(kind: str, reference: Obj, objects: Mapping[str, Obj | None]) -> str | None:
    name, key = str(reference.get("name")), str(reference.get("key"))
    obj = objects.get(name)
    if obj is None:
        if reference.get("optional"):
            return None
        raise Unresolved(f'{kind} "{name}" not found')
    text = (obj.get("data") or {}).get(key)
    if text is None:
        if reference.get("optional"):
            return None
        raise Unresolved(f'couldn\'t find key {key} in {kind} "{name}"')
    return str(text) if kind == "configmap" else _decoded(text).decode("utf-8", "replace")


def _from_file(reference: Obj, around: Surroundings) -> str | None:
    key, path = str(reference.get("key")), str(reference.get("path"))
    value = around.env_files.get((str(reference.get("volumeName")), path), {}).get(key)
    if not value and not reference.get("optional"):
        raise Unresolved(f'environment variable key "{key}" not found in file "{path}"')
    return value or None


def _from_whole(source: Obj, around: Surroundings) -> dict[str, str]:
    kind = "configmap" if source.get("configMapRef") else "secret"
    reference = source.get("configMapRef") or source.get("secretRef") or {}
    objects = around.config_maps if kind == "configmap" else around.secrets
    obj = objects.get(str(reference.get("name")))
    if obj is None:
        if reference.get("optional"):
            return {}
        raise Unresolved(f'{kind} "{reference.get("name")}" not found')
    prefix = str(source.get("prefix") or "")
    return {prefix + name: text for name, text in sorted(_texts_of(kind, obj).items())}


def _texts_of(kind: str, obj: Obj) -> dict[str, str]:
    """Values for variables; a ConfigMap's `binaryData` is not used for them."""
    if kind == "configmap":
        return {name: str(text) for name, text in (obj.get("data") or {}).items()}
    return {name: raw.decode("utf-8", "replace") for name, raw in contents_of(kind, obj).items()}


def contents_of(kind: str, obj: Obj) -> dict[str, bytes]:
    """Contents of a ConfigMap or a Secret, by key."""
    encoded = obj.get("binaryData") if kind == "configmap" else obj.get("data")
    contents = {name: _decoded(text) for name, text in (encoded or {}).items()}
    if kind == "configmap":
        contents |= {name: str(text).encode() for name, text in (obj.get("data") or {}).items()}
    return contents


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError):
        return b""


# The downward API.


def field_of(path: str, around: Surroundings) -> str:
    pod, meta = around.pod, metadata(around.pod)
    if match := _SUBSCRIPT.fullmatch(path):
        return str((meta.get(match[1]) or {}).get(match[2], ""))
    fields = {
        "metadata.name": meta.get("name", ""),
        "metadata.namespace": meta.get("namespace", ""),
        "metadata.uid": uid_of(pod),
        "metadata.labels": _listed(labels_of(pod)),
        "metadata.annotations": _listed(meta.get("annotations") or {}),
        "spec.nodeName": lookup(pod, "spec", "nodeName") or "",
        "spec.serviceAccountName": lookup(pod, "spec", "serviceAccountName") or "",
        "status.hostIP": around.host_ip,
        "status.hostIPs": around.host_ip,
        "status.podIP": around.pod_ip,
        "status.podIPs": around.pod_ip,
    }
    if path not in fields:
        raise Unresolved(f"unsupported fieldPath: {path}")
    return str(fields[path])


def _listed(pairs: Mapping[str, str]) -> str:
    quoted = (
        (name, text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"))
        for name, text in pairs.items()
    )
    return "\n".join(f'{name}="{text}"' for name, text in sorted(quoted))


def resource_of(reference: Obj, container: Obj, around: Surroundings) -> str:
    named = reference.get("containerName")
    if named:
        container = next(
            (candidate.spec for candidate in containers_of(around.pod) if candidate.name == named), container
        )
    side, _, name = str(reference.get("resource")).partition(".")
    resources = container.get("resources") or {}
    text = (resources.get(side) or {}).get(name)
    if text is None and side == "requests":
        text = (resources.get("limits") or {}).get(name)
    if text is None:
        text = around.allocatable.get(name, "0") if side == "limits" else "0"
    unit = parse(str(reference.get("divisor") or "1")).nano or parse("1").nano
    return str(-(-parse(str(text)).nano // unit))  # Rounded up, as kubelet does.


# Services.


def service_variables(services: tuple[Obj, ...], namespace: str, *, links: bool) -> dict[str, str]:
    """NAME_SERVICE_HOST and so on. Those of the API server's Service are always set."""
    env: dict[str, str] = {}
    for service in services:
        key, spec = key_of(service), service.get("spec") or {}
        is_api_server = key == Key("default", "kubernetes")
        if not is_api_server and (not links or key.namespace != namespace):
            continue
        address, ports = spec.get("clusterIP"), spec.get("ports") or []
        if not address or address == "None" or not ports:
            continue
        env |= _variables(key.name.upper().replace("-", "_"), str(address), ports)
    return env


def _variables(prefix: str, address: str, ports: list[Obj]) -> dict[str, str]:
    first = ports[0]
    whole = f"{first.get('protocol', 'TCP').lower()}://{address}:{first['port']}"
    env = {
        f"{prefix}_SERVICE_HOST": address,
        f"{prefix}_SERVICE_PORT": str(first["port"]),
        f"{prefix}_PORT": whole,
    }
    for port in ports:
        protocol = port.get("protocol", "TCP")
        if port.get("name"):
            env[f"{prefix}_SERVICE_PORT_{port['name'].upper().replace('-', '_')}"] = str(port["port"])
        base = f"{prefix}_PORT_{port['port']}_{protocol}"
        env |= {
            base: f"{protocol.lower()}://{address}:{port['port']}",
            f"{base}_PROTO": protocol.lower(),
            f"{base}_PORT": str(port["port"]),
            f"{base}_ADDR": address,
        }
    return env
