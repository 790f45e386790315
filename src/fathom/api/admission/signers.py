"""What a user may do in a signer's name, as Kubernetes has it: attest, approve, sign.

ClusterTrustBundleAttest        attest     who writes the bundles that are trusted in its name
CertificateApproval             approve    who approves or denies certificate requests for it
CertificateSigning              sign       who puts the certificate, or a failure, into a request
CertificateSubjectRestriction              nobody asks for a certificate of system:masters
"""

from __future__ import annotations

from fathom.api.admission.approvers import APPROVAL
from fathom.api.admission.attempt import CREATE, UPDATE, WriteAttempt, refused
from fathom.api.admission.plugin import Plugin
from fathom.api.auth.authorize import Authorizer
from fathom.api.auth.node_certificates import REQUESTS, BadRequest, read_request
from fathom.api.request import RequestTarget
from fathom.kube.rules.access.certificates import approvals
from fathom.model.causes import quoted
from fathom.model.objects import Obj, lookup
from fathom.model.user import MASTERS
from fathom.model.view import View

GROUP = "certificates.k8s.io"
BUNDLES = f"clustertrustbundles.{GROUP}"
CLIENTS = "kubernetes.io/kube-apiserver-client"
WORDS = {"attest": "attest for", "approve": "approve requests with", "sign": "sign requests with"}


class TrustBundleAttest(Plugin):
    name = "ClusterTrustBundleAttest"
    resources = frozenset({BUNDLES})
    operations = frozenset({CREATE, UPDATE})
    trusted = True

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def validate(self, attempt: WriteAttempt, view: View) -> None:
        signer = _signer_of(attempt.obj)
        if signer:
            _check(self._authorizer, attempt, "attest", signer)


class CertificateApproval(Plugin):
    name = "CertificateApproval"
    resources = frozenset({REQUESTS})
    operations = frozenset({UPDATE})
    subresources = frozenset({APPROVAL})
    trusted = True

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def validate(self, attempt: WriteAttempt, view: View) -> None:
        _check(self._authorizer, attempt, "approve", _signer_of(attempt.old))


class CertificateSigning(Plugin):
    name = "CertificateSigning"
    resources = frozenset({REQUESTS})
    operations = frozenset({UPDATE})
    subresources = frozenset({"status"})
    trusted = True

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def validate(self, attempt: WriteAttempt, view: View) -> None:
        status, old = _status(attempt.obj), _status(attempt.old)
        if approvals(status) != approvals(old):
            raise refused(attempt, "a request is approved or denied through its subresource approval")
        if status.get("certificate") != old.get("certificate") or status.get("conditions") != old.get(
            "conditions"
        ):
            _check(self._authorizer, attempt, "sign", _signer_of(attempt.old))


class CertificateSubjectRestriction(Plugin):
    name = "CertificateSubjectRestriction"
    resources = frozenset({REQUESTS})
    operations = frozenset({CREATE})
    trusted = True

    def validate(self, attempt: WriteAttempt, view: View) -> None:
        if _signer_of(attempt.obj) != CLIENTS:
            return
        try:
            request = read_request(str(lookup(attempt.obj or {}, "spec", "request") or ""))
        except BadRequest:
            return  # Whoever signs says what is wrong with it.
        if MASTERS in (part.value for part in request.subject):
            raise refused(attempt, f"use of {CLIENTS} signer with {MASTERS} group is not allowed")


def _check(authorizer: Authorizer, attempt: WriteAttempt, verb: str, signer: str) -> None:
    """By the signer's name, or for all signers of its domain."""
    names = (signer, f"{signer.partition('/')[0]}/*")
    if not any(authorizer.authorize(attempt.user, _target(verb, name)).allowed for name in names):
        what = {"attest": "attest for", "approve": "approve requests with", "sign": "sign requests with"}[
            verb
        ]
        raise refused(attempt, f"user not permitted to {what} signerName {quoted(signer)}")


def _target(verb: str, signer: str) -> RequestTarget:
    path = f"/apis/{GROUP}/v1/signers/{signer}"
    return RequestTarget(verb=verb, path=path, group=GROUP, version="v1", plural="signers", name=signer)


def _signer_of(obj: Obj | None) -> str:
    return str(lookup(obj or {}, "spec", "signerName") or "")


def _status(obj: Obj | None) -> Obj:
    return (obj or {}).get("status") or {}
