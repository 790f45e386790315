"""Requests to bind a pod, and the answers."""

from __future__ import annotations

import msgspec

from fathom.model.errors import ApiError
from fathom.model.objects import Key, Obj

RESERVATION = "fathom.dev/reservation"  # On a bound pod: the reservation that it took over.
NODE_REVISION = "fathom.dev/node-revision"  # On a bound pod: the node's revision in the decision.


class OverrideRef(msgspec.Struct, frozen=True):
    name: str
    namespace: str = ""
    uid: str = ""


class BindingAsk(msgspec.Struct, frozen=True, rename="camel"):
    """One pod to one node. Also the wire form of a batch's item."""

    namespace: str
    name: str
    node: str
    uid: str = ""
    node_uid: str = ""
    node_revision: str | int = ""
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    policy: str = ""
    overrides: tuple[str | OverrideRef, ...] = ()  # 'namespace/name', or 'name' in the pod's namespace.
    reservation: str = ""  # In the pod's namespace.

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)

    def override_refs(self) -> list[OverrideRef]:
        return [self._ref(reference) for reference in self.overrides]

    def _ref(self, reference: str | OverrideRef) -> OverrideRef:
        if isinstance(reference, OverrideRef):
            return (
                reference
                if reference.namespace
                else OverrideRef(reference.name, self.namespace, reference.uid)
            )
        place, _, uid = reference.partition("@")
        namespace, slash, name = place.rpartition("/")
        return OverrideRef(name, namespace if slash else self.namespace, uid)


class Refusal(msgspec.Struct, frozen=True):
    """A check that failed. `revision` is that of the object which made it fail; 0 if there is none."""

    check: str
    message: str
    revision: int = 0
    node: str = ""  # The pod's current node, if that is the reason.


class BindingDone(msgspec.Struct, frozen=True):
    revision: int
    uid: str = ""


class BindingUnknown(msgspec.Struct, frozen=True):
    """The commit may or may not have happened: read the pod."""

    cause: str


class BindingFailed(msgspec.Struct, frozen=True):
    """Refused by something other than the checks: an admission plugin, the store."""

    error: ApiError


Answer = BindingDone | Refusal | BindingUnknown | BindingFailed


def wire(ask: BindingAsk, answer: Answer) -> Obj:
    """One result of a batch."""
    head: Obj = {"namespace": ask.namespace, "name": ask.name}
    if isinstance(answer, BindingDone):
        return {**head, "status": "Bound", "revision": str(answer.revision)}
    if isinstance(answer, BindingUnknown):
        return {**head, "status": "Unknown", "message": answer.cause}
    if isinstance(answer, BindingFailed):
        return {**head, "status": "Refused", "check": answer.error.reason, "message": answer.error.message}
    failure = {"check": answer.check, "message": answer.message}
    revision = {"currentRevision": str(answer.revision)} if answer.revision else {}
    return {
        **head,
        "status": "Refused",
        **failure,
        **revision,
        **({"node": answer.node} if answer.node else {}),
    }
