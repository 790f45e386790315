"""Defaults of every pod: a service account, and tolerations for not ready and unreachable nodes."""

from __future__ import annotations

from fathom.api.admission.attempt import CREATE, UPDATE, WriteAttempt, refused
from fathom.api.admission.plugin import Plugin
from fathom.api.auth.references import SECRETS, projected_tokens, references
from fathom.model.declared import Reads, Writes
from fathom.model.mirror import is_mirror
from fathom.model.objects import Key, Obj, lookup
from fathom.model.view import View
from fathom.model.well_known import NOT_READY_TAINT, UNREACHABLE_TAINT

# Kubernetes' default: long enough for a node to come back, short enough that its pods are replaced soon.
TOLERATION_S = 300


class ServiceAccount(Plugin):
    """A pod runs as its namespace's `default` account unless it names another. That account need not exist. A
    pod that does not set automountServiceAccountToken gets its account's setting; the agent, which mounts
    tokens, reads pods only."""

    name = "ServiceAccount"
    resources = frozenset({"pods"})
    operations = frozenset({CREATE})
    trusted = True
    reads = (Reads("ServiceAccount"),)
    writes = (
        Writes(
            "Pod", ("spec.automountServiceAccountToken", "spec.serviceAccount", "spec.serviceAccountName")
        ),
    )

    def mutate(self, attempt: WriteAttempt, view: View) -> Obj:
        pod = attempt.obj
        assert pod is not None
        spec = pod.get("spec") or {}
        if is_mirror(pod):
            return pod
        name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
        added: Obj = {}
        if not spec.get("serviceAccountName"):
            added = {"serviceAccountName": name, "serviceAccount": name}
        if "automountServiceAccountToken" not in spec and not _mounts_tokens(view, attempt.namespace, name):
            added["automountServiceAccountToken"] = False
        return {**pod, "spec": {**spec, **added}} if added else pod

    def validate(self, attempt: WriteAttempt, view: View) -> None:
        """A mirror pod represents a pod that the node runs by itself, and gives the node no access: see
        `auth.nodes`."""
        pod = attempt.obj or {}
        fault = _mirror_fault(pod) if is_mirror(pod) else None
        if fault:
            raise refused(attempt, f"a mirror pod may not {fault}")


def _mirror_fault(pod: Obj) -> str | None:
    """In kube-apiserver's words."""
    if lookup(pod, "spec", "serviceAccountName"):
        return "reference service accounts"
    if any(plural == SECRETS for plural, _ in references(pod)):
        return "reference secrets"
    return "use ServiceAccountToken volume projections" if any(projected_tokens(pod)) else None


def _mounts_tokens(view: View, namespace: str, name: str) -> bool:
    account = view.get("serviceaccounts", Key(namespace, name))
    return account is None or account.obj.get("automountServiceAccountToken") is not False


class DefaultTolerationSeconds(Plugin):
    """A pod stays on a not ready or unreachable node for this long, unless it sets its own tolerations."""

    name = "DefaultTolerationSeconds"
    resources = frozenset({"pods"})
    operations = frozenset({CREATE, UPDATE})
    trusted = True
    writes = (Writes("Pod", ("spec.tolerations",)),)

    def __init__(self, not_ready_s: int = TOLERATION_S, unreachable_s: int = TOLERATION_S) -> None:
        self._defaults = ((NOT_READY_TAINT, not_ready_s), (UNREACHABLE_TAINT, unreachable_s))

    def mutate(self, attempt: WriteAttempt, view: View) -> Obj:
        assert attempt.obj is not None
        spec = attempt.obj.get("spec") or {}
        present = spec.get("tolerations") or []
        added = [_toleration(key, seconds) for key, seconds in self._defaults if not _tolerates(present, key)]
        if not added:
            return attempt.obj
        return {**attempt.obj, "spec": {**spec, "tolerations": [*present, *added]}}


def _tolerates(tolerations: list[Obj], key: str) -> bool:
    return any(
        (toleration.get("key") or key) == key and toleration.get("effect") in {None, "", "NoExecute"}
        for toleration in tolerations
    )


def _toleration(key: str, seconds: int) -> Obj:
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
