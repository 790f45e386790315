"""Who may decide through a subresource `approval`: a person who had no part in what is decided about.

Impersonation does not help: the real user is judged too.
"""

from __future__ import annotations

from collections.abc import Collection

from fathom.api.admission.attempt import WriteAttempt, refused
from fathom.model.accounts import NODE_USER, is_own
from fathom.model.user import User

APPROVAL = "approval"
ACCOUNTS = "system:serviceaccount:"


def is_person(user: User) -> bool:
    """Neither a service account nor one of fathom's own accounts, nor a node; nor impersonated by one."""
    if is_own(user) or not _is_person(user.name):
        return False
    return not user.impersonator or _is_person(user.impersonator)


def _is_person(name: str) -> bool:
    return not name.startswith((ACCOUNTS, NODE_USER)) and not is_own(User(name))


def check_approver(attempt: WriteAttempt, involved: Collection[str], about: str) -> None:
    """Refuse unless the caller is a person, and none of those `involved`."""
    user = attempt.user
    if not is_person(user):
        raise refused(attempt, f"{_real(user)} may not decide about {about}: only a person may")
    for name in (user.name, user.impersonator):
        if name and name in involved:
            raise refused(attempt, f"{name} may not decide about {about}: somebody else must")


def _real(user: User) -> str:
    return f"{user.impersonator} (as {user.name})" if user.impersonator else user.name
