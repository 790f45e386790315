"""TokenRequest: POST serviceaccounts/NAME/token."""

from __future__ import annotations

from fathom.api.auth.accounts import BOUND, AccountTokens
from fathom.kinds.scheduler_override import SchedulerOverride, expiry_ns
from fathom.model import causes
from fathom.model.errors import bad_request, conflict, invalid, not_found
from fathom.model.objects import Key, Obj, key_of, lookup, metadata, uid_of
from fathom.model.times import SECOND_NS, timestamp
from fathom.model.view import View

EXPIRATION_S = 3600
EXPIRATION_S_MIN = 600
EXPIRATION_S_MAX = 1 << 32


def request_token(
    obj: Obj, account: Obj, tokens: AccountTokens, *, override: SchedulerOverride | None = None
) -> Obj:
    """The TokenRequest with its status: a token for the service account, as asked for in the spec. If the
    override alone allows it, it ends with that: a longer one is cut, not refused."""
    spec = obj.get("spec") or {}
    home = key_of(account)
    seconds = spec.get("expirationSeconds")
    seconds = EXPIRATION_S if seconds is None else seconds
    _check_expiration(seconds, home.name)
    now_ns = tokens.clock.now_ns()
    seconds = min(seconds, _seconds_left(override, now_ns))
    bound = _bound_object(spec.get("boundObjectRef"), home, tokens.view)
    audiences = tuple(spec.get("audiences") or tokens.audiences)
    token = tokens.issue_token(
        account, audiences=audiences, expiration_s=seconds, bound=bound, override=override
    )
    return {
        **obj,
        "metadata": {**metadata(obj), "name": home.name, "namespace": home.namespace},
        "spec": {**spec, "audiences": list(audiences), "expirationSeconds": seconds},
        "status": {"token": token, "expirationTimestamp": timestamp(now_ns + seconds * SECOND_NS)},
    }


def _seconds_left(override: SchedulerOverride | None, now_ns: int) -> int:
    ends_ns = None if override is None else expiry_ns(override)
    return EXPIRATION_S_MAX if ends_ns is None else max(1, (ends_ns - now_ns) // SECOND_NS)


def _check_expiration(seconds: object, name: str) -> None:
    field = "spec.expirationSeconds"
    if not isinstance(seconds, int) or isinstance(seconds, bool):
        raise bad_request(f"{field}: must be a whole number of seconds")
    if seconds < EXPIRATION_S_MIN:
        why = "may not specify a duration less than 10 minutes"
    elif seconds > EXPIRATION_S_MAX:
        why = "may not specify a duration larger than 2^32 seconds"
    else:
        return
    faults = [causes.invalid(field, seconds, why)]
    raise invalid(group="authentication.k8s.io", kind="TokenRequest", name=name, causes=faults)


def _bound_object(ref: Obj | None, account: Key, view: View) -> Obj | None:
    if not ref:
        return None
    kind, name, uid = str(ref.get("kind")), str(ref.get("name") or ""), ref.get("uid")
    if kind not in BOUND or ref.get("apiVersion") != "v1":
        raise bad_request(f"cannot bind token to object of type {ref.get('apiVersion')}, Kind={kind}")
    resource, inside = BOUND[kind]
    seen = view.get(resource, Key(account.namespace if inside else "", name))
    if seen is None:
        raise not_found(resource, name)
    if uid and uid != uid_of(seen.obj):
        why = f"the UID in the bound object reference ({uid}) does not match the UID in record. "
        raise conflict(resource, name, why + "The object might have been deleted and then recreated")
    runs_as = lookup(seen.obj, "spec", "serviceAccountName") or "default"
    if kind == "Pod" and runs_as != account.name:
        raise bad_request(
            f'cannot bind token for serviceaccount "{account.name}" '
            "to pod running with different serviceaccount name."
        )
    return {**seen.obj, "kind": kind}
