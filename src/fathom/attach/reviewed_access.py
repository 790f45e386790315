"""What a user of the cluster may learn: the cluster's own server says it, by SubjectAccessReviews.

No answer is a "no" with its reason: nothing is shown on a guess. A review is believed for a few seconds, as
Kubernetes' own extension servers do, so that one question does not ask the same thing twice.
"""

from __future__ import annotations

import asyncio

from fathom.api.auth.authorize import refusal
from fathom.api.request import RequestTarget
from fathom.ask.access import GETTING_NODES, getting, getting_pods, namespaces_of
from fathom.client.api import Api, Resource
from fathom.client.outcomes import Committed, Rejected
from fathom.explain.evidence import ObjectRef, Objects
from fathom.kube.definitions.kind import Kind
from fathom.model.errors import unavailable
from fathom.model.objects import Obj, lookup
from fathom.model.times import SECOND_NS
from fathom.model.user import User
from fathom.seams.outside import Clock

REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", namespaced=False)
BELIEVED_S = 10  # Kubernetes' own, for extension API servers.
KEPT_MAX = 2_000  # Each with the groups of its user, which may be kilobytes; a question has some hundred.
NAME_CHARS_MAX = 512  # A namespace and a name have at most 316.
AT_ONCE = 8  # Requests: a small server must not feel them.
# Of one question, beyond that of its subject: objects of others count as hidden.
NAMESPACES_MAX, NAMES_MAX = 200, 100


class Reviews:
    """Asks the cluster who may do what, and remembers it for a while."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._kept: dict[tuple[User, RequestTarget], tuple[bool, int]] = {}  # And until when, in ns.

    async def may(self, user: User, target: RequestTarget) -> bool:
        """Raises 503 where the cluster does not say."""
        allowed, until_ns = self._kept.get((user, target), (False, 0))
        if self._clock.monotonic_ns() < until_ns:
            return allowed
        async with self._turns:
            outcome = await self._api.create(REVIEWS, "", review_of(user, target))
        if not isinstance(outcome, Committed):
            why = outcome.message if isinstance(outcome, Rejected) else "it does not answer"
            raise unavailable(f"the cluster does not say what {user.name} may read: {why}")
        allowed = lookup(outcome.obj, "status", "allowed") is True
        self._keep((user, target), allowed)
        return allowed

    def _keep(self, asked: tuple[User, RequestTarget], allowed: bool) -> None:
        target = asked[1]
        if len(target.name) + len(target.namespace) > NAME_CHARS_MAX:
            return  # A made-up name: no object has it.
        if len(self._kept) >= KEPT_MAX:
            self._kept.clear()
        self._kept[asked] = allowed, self._clock.monotonic_ns() + BELIEVED_S * SECOND_NS


def review_of(user: User, target: RequestTarget) -> Obj:
    wanted = {
        "verb": target.verb, "group": target.group, "version": target.version, "resource": target.plural,
        "namespace": target.namespace, "name": target.name,
    }  # fmt: skip
    who = {"user": user.name, "uid": user.uid, "groups": list(user.groups)}
    extra = {name: list(values) for name, values in user.extra}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            **{name: value for name, value in who.items() if value},
            **({"extra": extra} if extra else {}),
            "resourceAttributes": {name: value for name, value in wanted.items() if value},
        },
    }


class ReviewedAccess:
    """One user's permissions at the cluster, for one question."""

    def __init__(self, reviews: Reviews, user: User, namespace: str) -> None:
        """`namespace`: that of the question; '' if it has none."""
        self._reviews = reviews
        self._user = user
        self._namespace = namespace
        self._names = 0  # Objects that were asked about one by one: at most NAMES_MAX.

    async def require(self, kind: Kind, subject: ObjectRef) -> None:
        target = getting(kind, subject.namespace, subject.name)
        if not await self._reviews.may(self._user, target):
            raise refusal(self._user, target)

    async def may_get(self, kind: Kind, namespace: str, name: str) -> bool:
        """Most who may get one of a namespace may get all: where that is denied, the name is asked for."""
        if await self._reviews.may(self._user, getting(kind, namespace, "")):
            return True
        if self._names >= NAMES_MAX:
            return False
        self._names += 1
        return await self._reviews.may(self._user, getting(kind, namespace, name))

    async def may_read_nodes(self) -> bool:
        return await self._reviews.may(self._user, GETTING_NODES)

    async def readable(self, objects: Objects) -> frozenset[str] | None:
        if await self._reviews.may(self._user, getting_pods("")):
            return None
        others = [name for name in namespaces_of(objects) if name != self._namespace]
        names = [*filter(None, (self._namespace,)), *others][:NAMESPACES_MAX]
        asked = (self._reviews.may(self._user, getting_pods(name)) for name in names)
        may = await asyncio.gather(*asked)
        return frozenset(name for name, allowed in zip(names, may, strict=True) if allowed)
