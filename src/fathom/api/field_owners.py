"""Keeps metadata.managedFields: of objects that somebody has applied, and of those only.

The first apply of an object makes an owner `before-first-apply` of all that was there, as Kubernetes does for
objects without managedFields. From then on every write is followed. So objects that nobody applies cost
nothing.
"""

from __future__ import annotations

from typing import Any

from fathom.api.core import Call, Core
from fathom.api.request import Request
from fathom.kube.ownership import entries
from fathom.kube.ownership.owners import APPLY, UPDATE, Owner, Owners, updated
from fathom.kube.ownership.shapes import Shape
from fathom.model.media_types import APPLY_PATCH
from fathom.model.objects import Obj, metadata

NO_NAME = "unknown"  # A client that says neither its field manager nor its user agent.
NAME_CHARS_MAX = 128


def is_apply(request: Request) -> bool:
    return request.method == "PATCH" and request.headers.get("content-type", "").startswith(APPLY_PATCH)


def applier(call: Call) -> Owner:
    return Owner(APPLY, call.request.param("fieldManager"), call.kind.api_version, call.target.subresource)


def settle_owners(core: Core, call: Call, draft: Obj, old: Obj, *, sent: Any, subresource: str) -> None:
    """Put the owners of its fields into a draft of an update. `sent`: what the caller's object says of them,
    or, for an apply, what has been found already."""
    known, kept = metadata(old).get("managedFields"), sent
    if not is_apply(call.request):
        if not known:
            return
        owners = owners_of(known, sent)
        manager = call.request.param("fieldManager") or _program(call.caller.user_agent)
        by = Owner(UPDATE, manager, str(draft.get("apiVersion")), subresource)
        now = core.moment(call.caller.user).now
        owners = updated(_shape(core, call, draft), old, draft, owners, by, now=now)
        kept = entries.written(owners)
    meta = draft["metadata"] = {**metadata(draft)}
    if kept:
        meta["managedFields"] = kept
    else:
        meta.pop("managedFields", None)


def owners_of(known: Any, sent: Any = None) -> Owners:
    """A caller may change them; who sends none, or sends nonsense, leaves them as they are."""
    if entries.is_reset(sent):
        return {}
    for said in (sent, known):
        try:
            owners = entries.read(said or ())
        except ValueError:
            continue
        if owners:
            return owners
    return {}


def _shape(core: Core, call: Call, obj: Obj) -> Shape:
    """Of the form in which the object is stored, which may be another version's."""
    group, _, version = str(obj.get("apiVersion")).rpartition("/")
    return core.decoder.shape(core.registry.by_gvk(group, version, str(obj.get("kind"))) or call.kind)


def _program(user_agent: str) -> str:
    """'kubectl' of 'kubectl/v1.37.0 (linux/amd64)'."""
    return user_agent.partition("/")[0][:NAME_CHARS_MAX] or NO_NAME
