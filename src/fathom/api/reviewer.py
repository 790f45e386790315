"""Kinds that are answered and never stored, by their kind's name."""

from __future__ import annotations

from fathom.api.auth import reviews
from fathom.api.auth.accounts import AccountTokens
from fathom.api.auth.authenticate import Authenticator
from fathom.api.auth.authorize import Authorizer
from fathom.api.auth.token_requests import request_token
from fathom.api.kinds.kind import Kind
from fathom.model.errors import method_not_allowed
from fathom.model.objects import Key, Obj
from fathom.model.user import User
from fathom.seams.outside import Clock


class Reviewer:
    def __init__(
        self,
        *,
        authorizer: Authorizer,
        authenticator: Authenticator,
        accounts: AccountTokens,
        clock: Clock,
    ) -> None:
        self._authorizer = authorizer
        self._authenticator = authenticator
        self._accounts = accounts
        self._clock = clock

    def review(self, kind: Kind, obj: Obj, user: User, namespace: str) -> Obj:
        match kind.kind:
            case "SelfSubjectAccessReview":
                return reviews.review_self_access(obj, user, self._authorizer)
            case "SubjectAccessReview":
                return reviews.review_access(obj, self._authorizer)
            case "LocalSubjectAccessReview":
                return reviews.review_local_access(obj, namespace, self._authorizer)
            case "SelfSubjectRulesReview":
                return reviews.review_rules(obj, user, self._authorizer)
            case "TokenReview":
                return reviews.review_token(obj, self._authenticator)
            case "SelfSubjectReview":
                return reviews.review_self(obj, user)
        raise method_not_allowed()

    def issue(self, obj: Obj, account: Key) -> Obj:
        """A TokenRequest for a service account, answered."""
        return request_token(obj, account, self._accounts, self._authorizer.view, self._clock)
