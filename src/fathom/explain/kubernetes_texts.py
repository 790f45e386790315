"""What Kubernetes says only in words: the one place that looks into a text.

Controllers and kubelets other than fathom's report some facts as a message alone, in words that are fixed in
Kubernetes' source:

    plugin/pkg/admission/resourcequota    exceeded quota: NAME, requested: …, used: …, limited: …
                                          failed quota: NAME: must specify …
    pkg/kubelet                           configmap "NAME" not found
                                          couldn't find key KEY in configmap NAMESPACE/NAME
                                          Container NAME failed liveness probe; Readiness probe failed: …
    registry/rest, in answers             … the object has been modified; please apply your changes …
                                          … User "NAME" cannot VERB resource "RESOURCE" in API group …

Where fathom's own components report the same, they say it as data too: a condition's reason, the check of an
outcome, an object that can be looked up. Answers use that first, so that none depends on how fathom words it;
what is here is for clusters in which others run.
"""

from __future__ import annotations

import re

import msgspec

from fathom.model.podresources import Amounts
from fathom.model.quantity import parse

# Quotas.

_EXCEEDED = re.compile(
    r"exceeded quota: (?P<quota>[^,\s]+), requested: (?P<requested>\S+), "
    r"used: (?P<used>\S+), limited: (?P<limited>\S+)"
)
_UNASKED = re.compile(r"failed quota: (?P<quota>[^:\s]+): must specify (?P<listed>.+)")
_REFUSED = re.compile(r'^(Error creating: )?(pods "[^"]*" is forbidden: )?')


class QuotaRefusal(msgspec.Struct, frozen=True):
    """A ResourceQuota that refuses a pod: for want of room, or because the pod does not say what it needs."""

    quota: str
    requested: Amounts = {}  # Of the resources that are short.
    used: Amounts = {}
    hard: Amounts = {}
    needs: dict[str, tuple[str, ...]] = {}  # Resource -> containers that do not request it.

    @property
    def needs_text(self) -> str:
        """'requests.cpu for: main; limits.memory for: main,side', as Kubernetes lists them."""
        return "; ".join(f"{name} for: {','.join(containers)}" for name, containers in self.needs.items())


def quota_refusal(message: str) -> QuotaRefusal | None:
    """What a controller's condition or Event quotes of the API server's answer; None: not about a quota."""
    if match := _EXCEEDED.search(message):
        requested, used, hard = (_amounts(match[part]) for part in ("requested", "used", "limited"))
        return QuotaRefusal(match["quota"], requested, used, hard)
    if match := _UNASKED.search(message):
        return QuotaRefusal(match["quota"], needs=_needs(match["listed"]))
    return None


def refusal_text(message: str) -> str:
    """The API server's reason, without the pod's name."""
    return _REFUSED.sub("", message)


def _amounts(listed: str) -> Amounts:
    """'pods=1,requests.cpu=100m'; what is no amount is left out."""
    amounts: Amounts = {}
    for part in listed.split(","):
        name, _, amount = part.partition("=")
        try:
            amounts[name] = parse(amount)
        except ValueError:
            continue
    return amounts


def _needs(listed: str) -> dict[str, tuple[str, ...]]:
    """'requests.cpu for: main,side; limits.memory for: main'. Older versions list only names, with commas."""
    needs: dict[str, tuple[str, ...]] = {}
    for part in listed.split(";"):
        names, _, containers = part.strip().partition(" for:")
        for name in names.split(","):
            needs[name.strip()] = tuple(each.strip() for each in containers.split(",") if each.strip())
    return needs


# Containers: what kubelet says of them, in a status or in an Event.

_NOT_FOUND = re.compile(r'(configmap|secret) "([^"]+)" not found')
_NO_KEY = re.compile(r"couldn't find key (\S+) in (configmap|secret) [^/\s]+/([^\s,]+)", re.IGNORECASE)
_KILLED_BY_PROBE = re.compile(r"failed (liveness|startup) probe(?:, will be restarted)?(?:: (?P<answer>.*))?")
_PROBE_FAILED = re.compile(r"^(liveness|readiness|startup) probe failed(?:: (?P<answer>.*))?", re.IGNORECASE)


class MissingReference(msgspec.Struct, frozen=True):
    """A ConfigMap or a Secret that a container refers to, and that does not exist or lacks keys."""

    kind: str  # 'configmap', 'secret'
    name: str
    keys: tuple[str, ...] = ()
    exists: bool = False  # The object does; the keys do not.


class FailedProbe(msgspec.Struct, frozen=True):
    kind: str  # 'liveness', 'readiness', 'startup'
    answer: str = ""


def missing_reference(message: str) -> MissingReference | None:
    """The first that is missing, from the message of a waiting container."""
    if match := _NO_KEY.search(message):
        return MissingReference(match[2].lower(), match[3], (match[1],), exists=True)
    match = _NOT_FOUND.search(message)
    return None if match is None else MissingReference(match[1], match[2])


def killed_by_probe(message: str) -> FailedProbe | None:
    """From the Event Killing."""
    match = _KILLED_BY_PROBE.search(message)
    return None if match is None else FailedProbe(match[1], match["answer"] or "")


def failed_probe(message: str) -> FailedProbe | None:
    """From the Event Unhealthy."""
    match = _PROBE_FAILED.search(message)
    return None if match is None else FailedProbe(match[1].lower(), match["answer"] or "")


# Answers of an API server. Other refusals have the same code and reason.

_FORBIDDEN_BY_ROLES = re.compile(r"\bcannot \S+ (resource|path) \"")


def failed_hook(message: str) -> str | None:
    """What a postStart hook answered, from the end of its container; None if it did not fail."""
    match = re.match(r"PostStartHook failed(?:: (?P<answer>.*))?", message, re.DOTALL)
    return None if match is None else match["answer"] or ""


def is_about_directory(message: str) -> bool:
    """Whether a container was not started because of its working directory: fathom's agent, and runc."""
    return re.search(r"^workingDir: |chdir to cwd ", message) is not None


def is_stale_write(message: str) -> bool:
    """Whether a Conflict says that the object was changed since it was read."""
    return "the object has been modified" in message


def is_forbidden_by_roles(message: str) -> bool:
    """Whether a Forbidden says that the user's roles do not allow the request."""
    return _FORBIDDEN_BY_ROLES.search(message) is not None
