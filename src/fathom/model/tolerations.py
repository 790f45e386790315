"""Whether a pod's toleration matches a node's taint, on objects as stored.

`schedule/decide/shape.py` has the same rule for values that the scheduler compares thousands of times.
"""

from __future__ import annotations

from fathom.model.objects import Obj


def tolerates(toleration: Obj, taint: Obj) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")


def pod_tolerates(pod: Obj, taint: Obj) -> bool:
    return any(
        tolerates(toleration, taint) for toleration in (pod.get("spec") or {}).get("tolerations") or ()
    )
