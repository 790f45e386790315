"""A small cluster to admit into: kinds, objects with revisions, and commits that check what they expect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fathom.api.admission.attempt import CREATE, DELETE, UPDATE, Admitted, Charge, WriteAttempt
from fathom.api.admission.chain import Chain
from fathom.kube.definitions.kind import Kind
from fathom.model.errors import ApiError
from fathom.model.objects import Key, Obj, key_of
from fathom.model.user import User
from fathom.model.view import Seen
from fathom.store.protocol import Delete, Expect, Put, Write

JANE = User("jane", ("system:authenticated",))


def kind(name: str, plural: str, group: str = "", *, namespaced: bool = True, virtual: bool = False) -> Kind:
    return Kind(
        group=group,
        version="v1",
        kind=name,
        plural=plural,
        singular=name.lower(),
        namespaced=namespaced,
        list_kind=f"{name}List",
        virtual=virtual,
    )


KINDS = {
    one.kind: one
    for one in (
        kind("Pod", "pods"),
        kind("Service", "services"),
        kind("ConfigMap", "configmaps"),
        kind("ServiceAccount", "serviceaccounts"),
        kind("PersistentVolumeClaim", "persistentvolumeclaims"),
        kind("LimitRange", "limitranges"),
        kind("ResourceQuota", "resourcequotas"),
        kind("Deployment", "deployments", "apps"),
        kind("LocalSubjectAccessReview", "localsubjectaccessreviews", "authorization.k8s.io", virtual=True),
        kind("Namespace", "namespaces", namespaced=False),
        kind("Node", "nodes", namespaced=False),
        kind("PriorityClass", "priorityclasses", "scheduling.k8s.io", namespaced=False),
    )
}


def obj(kind_name: str, name: str, *, namespace: str = "default", **fields: Any) -> Obj:
    meta = {"name": name, **({"namespace": namespace} if KINDS[kind_name].namespaced else {})}
    meta |= fields.pop("metadata", {})
    return {"kind": kind_name, "apiVersion": KINDS[kind_name].api_version, "metadata": meta, **fields}


def pod(
    name: str = "p", *, phase: str = "", containers: Sequence[Obj] = ({"name": "c"},), **spec: Any
) -> Obj:
    status: Obj = {"status": {"phase": phase}} if phase else {}
    return obj("Pod", name, spec={"containers": list(containers), **spec}, **status)


def asking(name: str = "c", *, limits: Obj | None = None, others: Obj | None = None, **requests: str) -> Obj:
    """A container; `others` are requests whose names are no Python names."""
    asked = {**requests, **(others or {})}
    resources = {**({"requests": asked} if asked else {}), **({"limits": limits} if limits else {})}
    return {"name": name, "resources": resources}


class Lost(Exception):
    """Somebody was faster."""


class World:
    """A View, and the store behind it."""

    def __init__(self, *objects: Obj) -> None:
        self.revision_now = 1
        self._seen: dict[str, Seen] = {}
        for one in (obj("Namespace", "default"), *objects):
            self.put(one)

    def put(self, one: Obj) -> None:
        self._write([Put(_key(one), _Held(one))])  # type: ignore[arg-type]  # an object instead of its Body

    def remove(self, one: Obj) -> None:
        self._write([Delete(_key(one))])

    def commit(self, writes: Sequence[Write], charges: Iterable[Charge], *expects: Expect) -> None:
        charged = list(charges)
        for expect in (*expects, *(one for charge in charged for one in charge.preconditions)):
            seen = self._seen.get(expect.key)
            if (seen.revision if seen else 0) != expect.revision:
                raise Lost(expect.key)
        keys = [write.key for write in (*writes, *(one for charge in charged for one in charge.writes))]
        assert len(set(keys)) == len(keys), "a key may be written once"
        self._write([*writes, *(one for charge in charged for one in charge.writes)])

    def _write(self, writes: Sequence[Write]) -> None:
        self.revision_now += 1
        for write in writes:
            if isinstance(write, Delete):
                self._seen.pop(write.key, None)
            else:
                self._seen[write.key] = Seen(write.body.obj, self.revision_now)

    def fork(self) -> World:
        """The world as a reader saw it, while it goes on."""
        copy = World()
        copy._seen = dict(self._seen)
        copy.revision_now = self.revision_now
        return copy

    def get(self, resource: str, key: Key) -> Seen | None:
        path = f"{key.namespace}/{key.name}" if key.namespace else key.name
        return self._seen.get(f"/registry/{resource}/{path}")

    def list(self, resource: str, namespace: str | None = None) -> Iterable[Seen]:
        prefix = f"/registry/{resource}/{namespace}/" if namespace else f"/registry/{resource}/"
        return [self._seen[key] for key in sorted(self._seen) if key.startswith(prefix)]

    def revision(self, resource: str) -> int:
        return max((seen.revision for seen in self.list(resource)), default=0)

    def named(self, one: Obj) -> Obj:
        """The object as it is stored now."""
        return self._seen[_key(one)].obj


class _Held:
    def __init__(self, one: Obj) -> None:
        self.obj = one


def _key(one: Obj) -> str:
    key = key_of(one)
    return KINDS[one["kind"]].store_key(key.namespace, key.name)


def attempt(
    operation: str, new: Obj | None, old: Obj | None = None, *, user: User = JANE, subresource: str = ""
) -> WriteAttempt:
    one = new if new is not None else old
    assert one is not None
    key = key_of(one)
    return WriteAttempt(
        operation=operation,
        kind=KINDS[one["kind"]],
        namespace=key.namespace,
        name=key.name,
        obj=new,
        old=old,
        user=user,
        subresource=subresource,
    )


def create(chain: Chain, world: World, new: Obj, **options: Any) -> Admitted:
    return chain.admit(attempt(CREATE, new, **options), world)


def update(chain: Chain, world: World, new: Obj, old: Obj, **options: Any) -> Admitted:
    return chain.admit(attempt(UPDATE, new, old, **options), world)


def delete(chain: Chain, world: World, old: Obj, **options: Any) -> Admitted:
    return chain.admit(attempt(DELETE, None, old, **options), world)


def refusal(chain: Chain, world: World, new: Obj, old: Obj | None = None, **options: Any) -> ApiError:
    operation = CREATE if old is None else UPDATE
    try:
        chain.admit(attempt(operation, new, old, **options), world)
    except ApiError as error:
        return error
    raise AssertionError("admitted")
