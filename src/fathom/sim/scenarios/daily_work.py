"""What people do with the API, one thing at a time: each function chooses one, after what has been read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fathom.client.api import Api, Resource
from fathom.model.media_types import APPLY_PATCH
from fathom.model.objects import Key, Obj, key_of, uid_of
from fathom.model.resources import DEPLOYMENTS, LEASES, NAMESPACES, PODS, RESOURCE_QUOTAS, SERVICES
from fathom.model.times import timestamp
from fathom.sim.scenarios.basics import CONFIG_MAPS
from fathom.sim.scenarios.objects import pod_spec, template
from fathom.sim.world.process import EPOCH_NS
from fathom.sim.world.world import World

BATCHES = Resource("fathom.dev", "v1alpha1", "bindingbatches", namespaced=False)
HOLDERS = ("shop-desk", "office-desk")  # Nobody's process: these elect nobody.
NAMES = ("shop", "shop-eu", "shop-eu-2")  # Each begins like the one before.
PORTS = (30001, 30002, 30003)
TYPES = ("ClusterIP", "NodePort", "NodePort", "LoadBalancer", "ExternalName")
MANAGERS = ("ci", "kubectl")

Work = Callable[[Api], Awaitable[object]]


def _name(world: World) -> str:
    return world.rng.choice(NAMES)


def _read(world: World, before: dict[str, Obj], resource: Resource, key: Key) -> Obj | None:
    """The object as it is, or as the person has read it some time ago."""
    place = f"{resource.name}/{'/'.join(key)}"
    now, then = world.get(resource.name, key), before.get(place)
    if now is not None and (then is None or world.rng.random() < 0.4):
        before[place] = now
    return then if then is not None and world.rng.random() < 0.3 else now


# Services.


def _service(world: World, before: dict[str, Obj]) -> Work:
    """Create, change or delete a Service: its type, the number of its ports, and which node ports."""
    rng, name = world.rng, f"s-{world.rng.randrange(3)}"
    current = _read(world, before, SERVICES, Key("default", name))
    kind = rng.choice(TYPES)
    spec: Obj = {"type": kind, "selector": {"app": name}, "ports": _ports(world, kind)}
    if kind == "ExternalName":
        spec = {"type": kind, "externalName": "elsewhere.example.com"}
    elif kind == "ClusterIP" and rng.random() < 0.3:
        spec |= {"clusterIP": "None"}
    if current is None:
        return lambda api: api.create(SERVICES, "default", {"metadata": {"name": name}, "spec": spec})
    match rng.randrange(4):
        case 0:
            return lambda api: api.delete(SERVICES, "default", name, uid=uid_of(current))
        case 1:
            return lambda api: api.update(
                SERVICES, "default", {**current, "spec": {**current["spec"], **spec}}
            )
        case 2:
            given_up = [{**port, "nodePort": None} for port in spec.get("ports", [])]
            patch = {"spec": {"type": "ClusterIP", "externalName": None, "ports": given_up}}
            return lambda api: api.patch(SERVICES, "default", name, patch)
        case _:
            return lambda api: api.patch(SERVICES, "default", name, {"spec": spec})


def _ports(world: World, kind: str) -> list[Obj]:
    rng = world.rng
    ports: list[Obj] = []
    for number in range(rng.randrange(1, 4)):
        port: Obj = {"name": f"p{number}", "port": 80 + number}
        if kind in {"NodePort", "LoadBalancer"} and rng.random() < 0.5:
            port["nodePort"] = rng.choice(PORTS)
        ports.append(port)
    return ports


# Leases.


def _lease(world: World, before: dict[str, Obj]) -> Work:
    """Take a lease, hold it for longer, or let it go."""
    rng, name = world.rng, "lease"
    lease = _read(world, before, LEASES, Key("default", name))
    time = timestamp(EPOCH_NS + world.engine.now_ns).replace("Z", f".{rng.randrange(10**6):06}Z")
    spec = {"holderIdentity": rng.choice(HOLDERS), "leaseDurationSeconds": 10, "renewTime": time}
    if lease is None:
        return lambda api: api.create(LEASES, "default", {"metadata": {"name": name}, "spec": spec})
    match rng.randrange(6):
        case 0:
            return lambda api: api.delete(LEASES, "default", name, uid=uid_of(lease))
        case 1:
            return lambda api: api.update(LEASES, "default", {**lease, "spec": spec})
        case 2:
            return lambda api: api.patch(
                LEASES, "default", name, {"spec": {"holderIdentity": spec["holderIdentity"]}}
            )
        case 3:
            return lambda api: api.patch(LEASES, "default", name, {"spec": {"renewTime": time}})
        case _:
            renewed = {**lease, "spec": {**lease["spec"], "renewTime": time}}
            return lambda api: api.update(LEASES, "default", renewed)


# Workloads.


def _workload(world: World, before: dict[str, Obj]) -> Work:
    """Apply a Deployment, as one manager or another, scale it, or change it in other ways."""
    rng, name = world.rng, f"web-{world.rng.randrange(2)}"
    current, manager = _read(world, before, DEPLOYMENTS, Key("default", name)), rng.choice(MANAGERS)
    forced = {"fieldManager": manager, **({"force": "true"} if rng.random() < 0.7 else {})}
    applied = _deployment(world, name)
    resource = _with_query(DEPLOYMENTS, forced)
    if current is None or rng.random() < 0.4:
        return lambda api: api.patch(resource, "default", name, applied, media=APPLY_PATCH)
    scale = {"spec": {"replicas": rng.randrange(4)}}
    match rng.randrange(5):
        case 0:
            return lambda api: api.patch(DEPLOYMENTS, "default", name, scale, subresource="scale")
        case 1:
            whole = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name}, **scale}
            return lambda api: api.update(DEPLOYMENTS, "default", whole, subresource="scale")
        case 2:
            labels = {"metadata": {"labels": {"by": manager}}, **scale}
            return lambda api: api.patch(DEPLOYMENTS, "default", name, labels)
        case 3:
            spec = {**current["spec"], "minReadySeconds": rng.randrange(3)}
            return lambda api: api.update(DEPLOYMENTS, "default", {**current, "spec": spec})
        case _:
            status = {"status": {"replicas": rng.randrange(3)}}
            return lambda api: api.patch(DEPLOYMENTS, "default", name, status, subresource="status")


def _deployment(world: World, name: str) -> Obj:
    rng = world.rng
    spec: Obj = {"selector": {"matchLabels": {"app": name}}, "template": template(name)}
    for field in ("replicas", "minReadySeconds", "revisionHistoryLimit"):
        if rng.random() < 0.5:
            spec[field] = rng.randrange(4)
    labels = {key: rng.choice(MANAGERS) for key in ("by", "team") if rng.random() < 0.5}
    meta = {"name": name, "labels": labels}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


class _Queried(Resource, frozen=True):
    """A resource whose requests have a query."""

    query: str = ""

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        return f"{super().path(namespace, name, subresource)}?{self.query}"


def _with_query(resource: Resource, query: dict[str, str]) -> Resource:
    text = "&".join(f"{name}={value}" for name, value in query.items())
    return _Queried(resource.group, resource.version, resource.plural, resource.namespaced, query=text)


# Namespaces, and what is in them.


def _namespace(world: World, before: dict[str, Obj]) -> Work:
    """Create or delete a namespace, put something into it, or say late that one is empty that is gone."""
    rng, name = world.rng, _name(world)
    space = _read(world, before, NAMESPACES, Key("", name))
    if space is None:
        return lambda api: api.create(NAMESPACES, "", {"metadata": {"name": name}})
    match rng.randrange(4):
        case 0 | 1:
            return lambda api: api.delete(NAMESPACES, "", name, uid=uid_of(space))
        case 2 if _is_gone(world, space):
            empty = {**space, "spec": {"finalizers": []}}
            return lambda api: api.update(NAMESPACES, "", empty, subresource="finalize")
        case _:
            config: Obj = {
                "metadata": {"generateName": "c-", "labels": {"color": rng.choice(("red", "blue"))}}
            }
            return lambda api: api.create(CONFIG_MAPS, name, config)


def _is_gone(world: World, obj: Obj) -> bool:
    now = world.get("namespaces", key_of(obj))
    return now is None or uid_of(now) != uid_of(obj)


def _lists(world: World, _before: dict[str, Obj]) -> Work:
    """Create some objects in namespaces, and list those of one or of all, whole or by the page."""
    rng, name = world.rng, _space(world)
    limit, options = rng.randrange(5), {}
    if rng.random() < 0.3:
        options["labelSelector"] = "color=red"
    resource = rng.choice((CONFIG_MAPS, SERVICES, PODS, NAMESPACES))
    space = name if resource.namespaced and rng.random() < 0.7 else ""

    async def listed(api: Api) -> object:
        for _ in range(rng.randrange(3)):
            meta = {"generateName": "c-", "labels": {"color": rng.choice(("red", "blue"))}}
            await api.create(CONFIG_MAPS, name, {"metadata": meta})
        page = await api.list_page(resource, space, limit=limit, **options)
        while page.token:
            page = await api.list_page(resource, space, limit=limit, token=page.token, **options)
        return page

    return listed


def _space(world: World) -> str:
    spaces = [name for name in NAMES if world.get("namespaces", Key("", name)) is not None]
    return world.rng.choice(["default", *spaces])


# Pods.


def _bindings(world: World, _before: dict[str, Obj]) -> Work:
    """Create pods that wait, or bind them: several in one request, some of them twice, or one by one."""
    rng = world.rng
    waiting = [pod for pod in world.list("pods", "default") if not pod["spec"].get("nodeName")]
    if len(waiting) < 2 or rng.random() < 0.3:
        pod: Obj = {"metadata": {"name": f"p-{rng.randrange(10**6)}"}, "spec": {**pod_spec(), "nodeName": ""}}
        return lambda api: api.create(PODS, "default", pod)
    chosen = [rng.choice(waiting) for _ in range(rng.randrange(1, 5))]
    items = [
        {
            "namespace": "default",
            "name": key_of(pod).name,
            "uid": uid_of(pod),
            "node": rng.choice(("node-1", "node-2")),
        }
        for pod in chosen
    ]
    if rng.random() < 0.5:
        return lambda api: api.create(BATCHES, "", {"items": items})
    name, where = items[0]["name"], {"kind": "Node", "name": items[0]["node"]}
    binding = {"metadata": {"name": name}, "target": where}
    return lambda api: api.create(PODS, "default", binding, subresource="binding")


def _quota(world: World, before: dict[str, Obj]) -> Work:
    """Create, change or delete a quota, or an object that it counts."""
    rng, name = world.rng, "few"
    quota = _read(world, before, RESOURCE_QUOTAS, Key("default", name))
    hard = {
        what: str(rng.randrange(2, 7))
        for what in ("services", "count/configmaps", "pods")
        if rng.random() < 0.6
    }
    wanted: Obj = {"metadata": {"name": name}, "spec": {"hard": hard}}
    if quota is None:
        return lambda api: api.create(RESOURCE_QUOTAS, "default", wanted)
    match rng.randrange(6):
        case 0:
            return lambda api: api.delete(RESOURCE_QUOTAS, "default", name, uid=uid_of(quota))
        case 1:
            return lambda api: api.update(RESOURCE_QUOTAS, "default", {**quota, "spec": {"hard": hard}})
        case 2:
            return _config(world, before)
        case 3:
            return _bindings(world, before)
        case _:
            return _service(world, before)


def _config(world: World, before: dict[str, Obj]) -> Work:
    name = f"q-{world.rng.randrange(5)}"
    config = _read(world, before, CONFIG_MAPS, Key("default", name))
    if config is None:
        return lambda api: api.create(CONFIG_MAPS, "default", {"metadata": {"name": name}})
    return lambda api: api.delete(CONFIG_MAPS, "default", name, uid=uid_of(config))


SORTS: tuple[Callable[[World, dict[str, Obj]], Work], ...] = (
    _service,
    _lease,
    _workload,
    _namespace,
    _lists,
    _bindings,
    _quota,
)
