"""Impersonation: acting as another user; RBAC's verb `impersonate` must allow each part of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from fathom.api.auth.authorize import Authorizer
from fathom.api.request import RequestTarget
from fathom.model.errors import bad_request
from fathom.model.user import ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User

IMPERSONATE = "impersonate-"
USER = "impersonate-user"
GROUP = "impersonate-group"
UID = "impersonate-uid"
EXTRA = "impersonate-extra-"

REPEATED = "\n"  # Separates the values of a repeated header; no header value can contain it.
ACCOUNT = "system:serviceaccount:"
AUTHENTICATION = "authentication.k8s.io"


def impersonated(user: User, headers: Mapping[str, str], authorizer: Authorizer) -> User:
    wanted = _wanted(user, headers)
    for target in _needs(wanted, named=_values(headers, GROUP)):
        authorizer.require(user, target)
    return wanted


def _wanted(user: User, headers: Mapping[str, str]) -> User:
    name, uid = headers.get(USER, ""), headers.get(UID, "")
    if REPEATED in name or REPEATED in uid:
        raise bad_request("requested to impersonate more than one user")
    if not name:
        named = ", ".join(sorted(header for header in headers if header.startswith(IMPERSONATE)))
        raise bad_request(f"requested {named} without impersonating a user")
    groups = _values(headers, GROUP) or _account_groups(name)
    return User(
        name=name,
        groups=_completed(name, groups),
        uid=uid,
        extra=tuple(
            (unquote(header[len(EXTRA) :]).lower(), _values(headers, header))
            for header in sorted(headers)
            if header.startswith(EXTRA)
        ),
        impersonator=user.name,
    )


def _values(headers: Mapping[str, str], header: str) -> tuple[str, ...]:
    return tuple(value for value in headers.get(header, "").split(REPEATED) if value)


def _account(name: str) -> tuple[str, str] | None:
    """Namespace and name, if the user is a service account."""
    namespace, _, account = name.removeprefix(ACCOUNT).partition(":")
    return (namespace, account) if name.startswith(ACCOUNT) and namespace and account else None


def _account_groups(name: str) -> tuple[str, ...]:
    account = _account(name)
    return ("system:serviceaccounts", f"system:serviceaccounts:{account[0]}") if account else ()


def _completed(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    if AUTHENTICATED in groups or UNAUTHENTICATED in groups:
        return groups
    return (*groups, UNAUTHENTICATED if name == ANONYMOUS else AUTHENTICATED)


def _needs(wanted: User, *, named: tuple[str, ...]) -> Iterator[RequestTarget]:
    """The required permissions. Groups that the user has implicitly need no permission of their own."""
    account = _account(wanted.name)
    if account:
        yield _impersonate("serviceaccounts", account[1], namespace=account[0])
    else:
        yield _impersonate("users", wanted.name)
    for group in named:
        yield _impersonate("groups", group)
    if wanted.uid:
        yield _impersonate("uids", wanted.uid, group=AUTHENTICATION)
    for field, values in wanted.extra:
        for value in values:
            yield _impersonate("userextras", value, group=AUTHENTICATION, subresource=field)


def _impersonate(
    plural: str, name: str, *, group: str = "", namespace: str = "", subresource: str = ""
) -> RequestTarget:
    return RequestTarget(
        verb="impersonate",
        path="",
        group=group,
        version="v1",
        plural=plural,
        namespace=namespace,
        name=name,
        subresource=subresource,
    )
