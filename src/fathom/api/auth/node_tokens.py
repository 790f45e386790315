"""Tokens that a node may request: for accounts of its own pods, bound to these, with their audiences."""

from __future__ import annotations

from collections.abc import Iterator

from fathom.api.auth.references import CLAIMS, projected_tokens, references
from fathom.model.causes import quoted
from fathom.model.objects import Key, Obj, key_of, lookup, uid_of
from fathom.model.view import View


def token_fault(node: str, namespace: str, request: Obj, view: View) -> str | None:
    """Why the node does not get the requested token; None: it does."""
    ref = lookup(request, "spec", "boundObjectRef") or {}
    if (ref.get("apiVersion"), ref.get("kind")) != ("v1", "Pod") or not ref.get("name"):
        return "node requested token not bound to a pod"
    if not ref.get("uid"):
        return "node requested token with a pod binding without a uid"
    seen = view.get("pods", Key(namespace, str(ref["name"])))
    if seen is None or uid_of(seen.obj) != ref["uid"]:
        return (
            f"the UID in the bound object reference ({ref['uid']}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
    if lookup(seen.obj, "spec", "nodeName") != node:
        return "node requested token bound to a pod scheduled on a different node"
    return _audience_fault(lookup(request, "spec", "audiences") or [], seen.obj, view)


def _audience_fault(audiences: list[str], pod: Obj, view: View) -> str | None:
    """A pod's token is valid only for audiences that the pod requests, not for others that the node may
    want."""
    if len(audiences) > 1:
        return "node may only request 0 or 1 audiences"
    wanted = audiences[0] if audiences else ""
    if wanted in _audiences(pod, view):
        return None
    return f"audience {quoted(wanted)} not found in pod spec volume"


def _audiences(pod: Obj, view: View) -> Iterator[str]:
    """'' is this server. Agents add by themselves the token volume that kube-apiserver writes into every
    pod."""
    if lookup(pod, "spec", "automountServiceAccountToken") is not False:
        yield ""
    for token in projected_tokens(pod):
        yield str(token.get("audience") or "")
    for driver in _storage_drivers(pod, view):
        seen = view.get("csidrivers.storage.k8s.io", Key("", driver))
        for request in lookup(seen.obj if seen else None, "spec", "tokenRequests") or ():
            yield str(request.get("audience") or "")


def _storage_drivers(pod: Obj, view: View) -> Iterator[str]:
    for volume in lookup(pod, "spec", "volumes") or ():
        yield str(lookup(volume, "csi", "driver") or "")
    for plural, name in references(pod):
        claim = view.get(plural, Key(key_of(pod).namespace, name)) if plural == CLAIMS else None
        bound = str(lookup(claim.obj if claim else None, "spec", "volumeName") or "")
        persistent_volume = view.get("persistentvolumes", Key("", bound)) if bound else None
        yield str(lookup(persistent_volume.obj if persistent_volume else None, "spec", "csi", "driver") or "")
