"""Table columns of role bindings, certificates, quotas, policies and flow control."""

from __future__ import annotations

from typing import Any

from fathom.kube.columns.texts import (
    NONE,
    UNSET,
    condition,
    is_true,
    items,
    labels_text,
    part,
    selector_text,
    text,
)
from fathom.kube.columns.times import since
from fathom.model.objects import Obj, is_deleting, lookup, metadata
from fathom.model.times import human_duration


def role_ref(obj: Obj, now_ns: int) -> str:
    return f"{text(obj, 'roleRef', 'kind')}/{text(obj, 'roleRef', 'name')}"


def _subjects(obj: Obj, kind: str) -> list[Obj]:
    return [subject for subject in items(obj, "subjects") if subject.get("kind") == kind]


def subject_users(obj: Obj, now_ns: int) -> str:
    return ", ".join(text(subject, "name") for subject in _subjects(obj, "User"))


def subject_groups(obj: Obj, now_ns: int) -> str:
    return ", ".join(text(subject, "name") for subject in _subjects(obj, "Group"))


def subject_service_accounts(obj: Obj, now_ns: int) -> str:
    accounts = _subjects(obj, "ServiceAccount")
    return ", ".join(f"{text(account, 'namespace')}/{text(account, 'name')}" for account in accounts)


def csr_duration(obj: Obj, now_ns: int) -> str:
    seconds = lookup(obj, "spec", "expirationSeconds")
    return NONE if seconds is None else human_duration(seconds)


def csr_condition(obj: Obj, now_ns: int) -> str:
    states = [
        "Denied" if condition(obj, "Denied") else "Approved" if condition(obj, "Approved") else "Pending"
    ]
    if condition(obj, "Failed"):
        states.append("Failed")
    if text(obj, "status", "certificate"):
        states.append("Issued")
    return ",".join(states)


def pod_certificate_state(obj: Obj, now_ns: int) -> str:
    return next((kind for kind in ("Failed", "Denied", "Issued") if condition(obj, kind)), "Pending")


def user_annotations(obj: Obj, now_ns: int) -> str:
    return labels_text(lookup(obj, "spec", "unverifiedUserAnnotations"))


def _quota(obj: Obj, *, limits: bool) -> str:
    hard, used = part(obj, "status", "hard"), part(obj, "status", "used")
    names = [name for name in sorted(hard) if name.startswith("limits.") == limits]
    return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)


def quota_request(obj: Obj, now_ns: int) -> str:
    return _quota(obj, limits=False)


def quota_limit(obj: Obj, now_ns: int) -> str:
    return _quota(obj, limits=True)


def webhook_count(obj: Obj, now_ns: int) -> int:
    return len(items(obj, "webhooks"))


def validation_count(obj: Obj, now_ns: int) -> int:
    return len(items(obj, "spec", "validations"))


def mutation_count(obj: Obj, now_ns: int) -> int:
    return len(items(obj, "spec", "mutations"))


def param_kind(obj: Obj, now_ns: int) -> str:
    kind = part(obj, "spec", "paramKind")
    return f"{text(kind, 'apiVersion')}/{text(kind, 'kind')}" if kind else UNSET


def param_ref(obj: Obj, now_ns: int) -> str:
    ref = part(obj, "spec", "paramRef")
    if name := text(ref, "name"):
        return f"{text(ref, 'namespace', missing='*')}/{name}"
    return selector_text(ref["selector"]) if "selector" in ref else UNSET


def _spec_value(obj: Obj, *path: str) -> Any:
    value = lookup(obj, "spec", *path)
    return NONE if value is None else value


def plc_shares(obj: Obj, now_ns: int) -> Any:
    return _spec_value(obj, "limited", "nominalConcurrencyShares")


def plc_queues(obj: Obj, now_ns: int) -> Any:
    return _spec_value(obj, "limited", "limitResponse", "queuing", "queues")


def plc_hand(obj: Obj, now_ns: int) -> Any:
    return _spec_value(obj, "limited", "limitResponse", "queuing", "handSize")


def plc_queue_length(obj: Obj, now_ns: int) -> Any:
    return _spec_value(obj, "limited", "limitResponse", "queuing", "queueLengthLimit")


def claim_state(obj: Obj, now_ns: int) -> str:
    states = ["deleted"] if is_deleting(obj) else []
    if "allocation" in part(obj, "status"):
        states.append("allocated")
        if items(obj, "status", "reservedFor"):
            states.append("reserved")
    elif not states:
        states.append("pending")
    return ",".join(states)


def taint_added(obj: Obj, now_ns: int) -> str:
    return since(lookup(obj, "spec", "taint", "timeAdded"), now_ns)


def migration_resource(obj: Obj, now_ns: int) -> str:
    group, resource = text(obj, "spec", "resource", "group"), text(obj, "spec", "resource", "resource")
    return f"{resource}.{group}" if group else resource


def migration_status(obj: Obj, now_ns: int) -> str:
    return next((kind for kind in ("Succeeded", "Failed", "Running") if is_true(obj, kind)), "Unknown")


def apiservice_service(obj: Obj, now_ns: int) -> str:
    service = part(obj, "spec", "service")
    return f"{text(service, 'namespace')}/{text(service, 'name')}" if service else "Local"


def apiservice_available(obj: Obj, now_ns: int) -> str:
    available = condition(obj, "Available")
    status, reason = text(available, "status", missing="Unknown"), text(available, "reason")
    return f"{status} ({reason})" if reason and status != "True" else status


def data_count(obj: Obj, now_ns: int) -> int:
    return len(part(obj, "data")) + len(part(obj, "binaryData"))


def created_at(obj: Obj, now_ns: int) -> str:
    return str(metadata(obj).get("creationTimestamp") or "")
