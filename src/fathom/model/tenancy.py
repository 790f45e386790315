"""The tenant of a pod: quotas, fairness and shares count by it."""

from __future__ import annotations

from fathom.model.objects import Obj, labels_of, metadata

TENANT = "fathom.dev/tenant"  # Label of a Namespace, or of a pod whose tenant differs from its namespace's.


# On an object that holds capacity: 'tenant/zone/class[/override]', as charged. Only the server writes it.
ACCOUNT = "fathom.dev/account"


def charged_to(obj: Obj) -> tuple[str, str, str] | None:
    """Tenant, zone and class that a placed object is charged to, whatever its namespace and node say by now.
    None: no charge is recorded."""
    text = (metadata(obj).get("annotations") or {}).get(ACCOUNT)
    parts = text.split("/") if isinstance(text, str) else []
    return (parts[0], parts[1], parts[2]) if len(parts) in {3, 4} else None


def tenant_of(pod: Obj, namespace_obj: Obj | None) -> str:
    """The tenant that the pod names (admission has checked that its creator may use it), else its
    Namespace's, else the namespace itself. Also for a Reservation, or any object in a namespace."""
    named = labels_of(pod).get(TENANT)
    if named:
        return named
    of_namespace = labels_of(namespace_obj).get(TENANT) if namespace_obj is not None else None
    return of_namespace or str(metadata(pod).get("namespace") or "")
