"""Certificates for nodes that join: who gets one, for what, and that it authenticates."""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from tests.api.harness import Api, tell

from fathom import node_certificates
from fathom.api.auth.certificates import ensure_pki
from fathom.api.auth.node_certificates import SIGNER, Approve, Fail, Sign, judge, sign
from fathom.api.auth.static_tokens import digest
from fathom.model.objects import Obj
from fathom.model.user import User
from fathom.node_certificates import NodeCertificates
from fathom.seams.log import NoLog
from fathom.seams.outside import SystemClock

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


def request(name: str = "system:node:n1", group: str = "system:nodes", *, other: str = "") -> str:
    parts = [(NameOID.ORGANIZATION_NAME, group), (NameOID.COMMON_NAME, name)]
    subject = x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if other:
        names = x509.SubjectAlternativeName([x509.DNSName(other)])
        builder = builder.add_extension(names, critical=False)
    signed = builder.sign(ec.generate_private_key(ec.SECP256R1()), SHA256())
    return b64encode(signed.public_bytes(Encoding.PEM)).decode()


def csr(encoded: str = "", *, user: str = "system:bootstrap:a", **spec: Any) -> Obj:
    return {
        "kind": "CertificateSigningRequest",
        "apiVersion": "certificates.k8s.io/v1",
        "metadata": {"name": "join"},
        "spec": {
            "request": encoded or request(),
            "signerName": SIGNER,
            "usages": ["client auth"],
            "username": user,
            "groups": ["system:bootstrappers"],
            **spec,
        },
    }


def judged(obj: Obj, *nodes: str) -> Approve | Sign | Fail | None:
    return judge(obj, node_exists=nodes.__contains__)


def test_a_bootstrapper_gets_the_certificate_of_a_node_that_does_not_exist_yet() -> None:
    assert judged(csr()) == Approve("n1")
    assert judged(csr(), "n2") == Approve("n1")
    assert judged(csr(), "n1") is None
    account = csr(user="system:serviceaccount:kube-system:node-bootstrapper", groups=[])
    assert judged(account) == Approve("n1")


def test_a_node_renews_its_own_certificate_and_no_others() -> None:
    own, others = request("system:node:n1"), request("system:node:n2")
    asked = [csr(each, user="system:node:n1", groups=["system:nodes"]) for each in (own, others)]
    answers = [judged(each, "n1", "n2") for each in asked]
    assert answers == [Approve("n1"), None]


def test_anybody_else_waits_for_an_operator() -> None:
    stranger = csr(user="jane", groups=["developers"])
    assert judged(stranger) is None
    approved = {**stranger, "status": {"conditions": [{"type": "Approved", "status": "True"}]}}
    assert judged(approved) == Sign("n1")
    assert judged({**stranger, "status": {"conditions": [{"type": "Denied", "status": "True"}]}}) is None
    assert judged({**csr(), "status": {"certificate": "there"}}) is None
    assert judged(csr(signerName="kubernetes.io/kube-apiserver-client")) is None


@pytest.mark.parametrize(
    ("encoded", "usages", "why"),
    [
        (request("admin"), ["client auth"], "the subject is not CN=system:node:NAME, O=system:nodes"),
        (
            request(group="system:masters"),
            ["client auth"],
            "the subject is not CN=system:node:NAME, O=system:nodes",
        ),
        (request(other="evil.example"), ["client auth"], "the request names more than the node"),
        (request("system:node:Bad_Name"), ["client auth"], "'Bad_Name' is not a valid node name: "),
        (
            request(),
            ["client auth", "server auth"],
            "usages must be 'client auth' and may be client auth, digital signature, key encipherment",
        ),
        ("bm90IGEgcmVxdWVzdA==", ["client auth"], "spec.request is not a PEM certificate request in base64"),
        ("§", ["client auth"], "spec.request is not a PEM certificate request in base64"),
    ],
)
def test_what_asks_for_anything_else_is_never_signed_even_if_approved(
    encoded: str, usages: list[str], why: str
) -> None:
    approved = {"status": {"conditions": [{"type": "Approved", "status": "True"}]}}
    answer = judged({**csr(encoded, usages=usages), **approved})
    assert isinstance(answer, Fail)
    assert answer.why.startswith(why)


def test_the_certificate_is_for_this_key_and_subject_and_by_this_ca(tmp_path: Path) -> None:
    pki = ensure_pki(tmp_path, clock=SystemClock())
    obj = csr(expirationSeconds=3600)
    certificate = x509.load_pem_x509_certificate(sign(pki, obj, clock=SystemClock()))
    asked = x509.load_pem_x509_csr(b64decode(obj["spec"]["request"]))
    certificate.verify_directly_issued_by(pki.ca)
    assert (certificate.subject, certificate.public_key()) == (asked.subject, asked.public_key())
    validity_s = (certificate.not_valid_after_utc - certificate.not_valid_before_utc).total_seconds()
    assert 3600 <= validity_s <= 3600 + 301


def test_a_server_signs_what_a_bootstrapper_asks_for(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        bootstrap = User("system:bootstrap:a", ("system:bootstrappers", "system:authenticated"))
        api.parts.authenticator.replace_tokens({**api.parts.own_tokens, digest("t"): bootstrap})
        pki = ensure_pki(tmp_path, clock=SystemClock())
        writer = api.parts.writer("node-certificates")
        signing = asyncio.create_task(
            NodeCertificates(writer, api.core.cache, pki, SystemClock(), log=NoLog()).run()
        )
        asked = await api.post(REQUESTS, csr(), token="t")
        assert (asked.status, "warning" in asked.headers) == (201, False)

        async def signed() -> bool:
            answer = await api.get(f"{REQUESTS}/join", token="t")
            return bool((answer.obj.get("status") or {}).get("certificate"))

        await api.eventually(signed)
        status = (await api.get(f"{REQUESTS}/join", token="t")).obj["status"]
        assert [(each["type"], each["reason"]) for each in status["conditions"]] == [
            ("Approved", "AutoApproved")
        ]
        certificate = x509.load_pem_x509_certificate(b64decode(status["certificate"]))
        certificate.verify_directly_issued_by(pki.ca)
        assert (await api.get("/api/v1/secrets", token="t")).status == 403
        signing.cancel()

    tell(story, tmp_path)


def test_a_request_that_waits_is_judged_once_until_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_certificates, "LOOK_S", 0.01)
    judgements: list[str] = []

    def counted(obj: Obj, **options: Any) -> Approve | Sign | Fail | None:
        judgements.append(obj["metadata"]["name"])
        return judge(obj, **options)

    monkeypatch.setattr(node_certificates, "judge", counted)

    async def later_one_is_judged(api: Api, name: str) -> None:
        later = csr()
        later["metadata"]["name"] = name
        assert (await api.post(REQUESTS, later)).status == 201
        async with asyncio.timeout(20):
            while name not in judgements:
                await asyncio.sleep(0.01)

    async def story(api: Api) -> None:
        pki = ensure_pki(tmp_path, clock=SystemClock())
        writer = api.parts.writer("node-certificates")
        signing = asyncio.create_task(
            NodeCertificates(writer, api.core.cache, pki, SystemClock(), log=NoLog()).run()
        )
        assert (await api.post(REQUESTS, csr())).status == 201  # An administrator's own: it waits.
        await later_one_is_judged(api, "second")
        await later_one_is_judged(api, "third")
        assert judgements == ["join", "second", "third"]
        labels = {"metadata": {"labels": {"a": "b"}}}
        assert (await api.patch(f"{REQUESTS}/join", labels)).status == 200
        await later_one_is_judged(api, "fourth")
        await later_one_is_judged(api, "fifth")
        assert sorted(judgements) == ["fifth", "fourth", "join", "join", "second", "third"]
        signing.cancel()

    tell(story, tmp_path)
