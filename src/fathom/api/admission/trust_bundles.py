"""ClusterTrustBundleAttest: only users that may attest for a signer write the bundles trusted in its name."""

from __future__ import annotations

from fathom.api.admission.attempt import CREATE, UPDATE, WriteAttempt
from fathom.api.admission.plugin import Plugin
from fathom.api.auth.authorize import Authorizer
from fathom.api.request import RequestTarget
from fathom.model.causes import quoted
from fathom.model.errors import forbidden
from fathom.model.objects import lookup
from fathom.model.user import User
from fathom.model.view import View

GROUP = "certificates.k8s.io"
BUNDLES = f"clustertrustbundles.{GROUP}"


class TrustBundleAttest(Plugin):
    name = "ClusterTrustBundleAttest"
    resources = frozenset({BUNDLES})
    operations = frozenset({CREATE, UPDATE})
    trusted = True

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def validate(self, attempt: WriteAttempt, view: View) -> None:
        signer = str(lookup(attempt.obj or {}, "spec", "signerName") or "")
        if signer and not self._may_attest(attempt.user, signer):
            why = f"user not permitted to attest for signerName {quoted(signer)}"
            raise forbidden(
                f"{BUNDLES} {quoted(attempt.name)} is forbidden: {why}", resource=BUNDLES, name=attempt.name
            )

    def _may_attest(self, user: User, signer: str) -> bool:
        """By the signer's name, or for all signers of its domain."""
        names = (signer, f"{signer.partition('/')[0]}/*")
        return any(self._authorizer.authorize(user, _attest(name)).allowed for name in names)


def _attest(signer: str) -> RequestTarget:
    path = f"/apis/{GROUP}/v1/signers/{signer}"
    return RequestTarget(verb="attest", path=path, group=GROUP, version="v1", plural="signers", name=signer)
