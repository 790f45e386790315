"""Who may approve and sign certificate requests: the right to write a request's status alone is neither."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.api.auth.test_node_certificates import REQUESTS, csr, request
from tests.api.harness import ADMIN, JANE, Answer, Api, tell
from tests.security.people import grant_rule, introduce

from fathom.api.auth.node_certificates import SIGNER
from fathom.model.objects import Obj
from fathom.model.user import User

GROUP = "certificates.k8s.io"
KIND = "certificatesigningrequests"
APPROVED, DENIED, FAILED = ({"type": type_, "status": "True"} for type_ in ("Approved", "Denied", "Failed"))


async def let(api: Api, user: str, verbs: str, resources: str, only: str = "") -> None:
    rule: Obj = {"apiGroups": [GROUP], "verbs": verbs.split(), "resources": resources.split()}
    if only:
        rule["resourceNames"] = [only]
    await grant_rule(api, user, f"{user}-{rule['verbs'][0]}", rule)


async def say(api: Api, token: str, subresource: str, **status: object) -> Answer:
    return await api.patch(f"{REQUESTS}/join/{subresource}", {"status": status}, token=token)


async def asked(api: Api) -> None:
    assert (await api.post(REQUESTS, csr())).status == 201


def test_an_approval_needs_the_right_to_approve_for_the_signer(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await asked(api)
        introduce(api, User("mary"))
        for user in ("jane", "mary"):
            await let(api, user, "get update patch", f"{KIND}/approval {KIND}/status")
        await let(api, "mary", "approve", "signers", SIGNER)
        refused = await say(api, JANE, "approval", conditions=[APPROVED])
        assert refused.status == 403
        assert f'not permitted to approve requests with signerName "{SIGNER}"' in refused.obj["message"]
        assert (await say(api, JANE, "status", conditions=[APPROVED])).status == 403
        assert (await say(api, "mary", "status", conditions=[APPROVED])).status == 403
        assert (await say(api, "mary", "approval", conditions=[APPROVED])).status == 200

    tell(story, tmp_path)


def test_the_right_for_a_domain_is_one_for_its_signers_and_no_others(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await asked(api)
        introduce(api, User("mary"))
        for user, domain in (("jane", "example.com/*"), ("mary", "kubernetes.io/*")):
            await let(api, user, "patch", f"{KIND}/approval")
            await let(api, user, "approve", "signers", domain)
        assert (await say(api, JANE, "approval", conditions=[APPROVED])).status == 403
        assert (await say(api, "mary", "approval", conditions=[APPROVED])).status == 200

    tell(story, tmp_path)


def test_a_certificate_is_written_by_who_may_sign_and_an_approver_writes_none(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await asked(api)
        introduce(api, User("mary"))
        for user in ("jane", "mary"):
            await let(api, user, "patch", f"{KIND}/approval {KIND}/status")
        await let(api, "jane", "approve", "signers", SIGNER)
        await let(api, "mary", "sign", "signers", SIGNER)
        signed = await say(api, JANE, "approval", conditions=[APPROVED], certificate="eA==")
        assert signed.status == 200
        assert "certificate" not in signed.obj["status"]
        for words in ({"certificate": "eA=="}, {"conditions": [*signed.obj["status"]["conditions"], FAILED]}):
            assert (await say(api, JANE, "status", **words)).status == 403
        assert (await say(api, "mary", "status", certificate="eA==")).status == 200

    tell(story, tmp_path)


@pytest.mark.parametrize("subresource", ["approval", "status"])
def test_what_was_decided_stands(tmp_path: Path, subresource: str) -> None:
    async def story(api: Api) -> None:
        await asked(api)
        assert (await say(api, ADMIN, "approval", conditions=[DENIED])).status == 200
        for conditions in ([], [APPROVED], [{**DENIED, "status": "False"}]):
            answer = await say(api, ADMIN, subresource, conditions=conditions)
            assert answer.status in {403, 422}, conditions
        stored = (await api.get(f"{REQUESTS}/join")).obj["status"]["conditions"]
        assert [each["type"] for each in stored] == ["Denied"]

    tell(story, tmp_path)


def test_a_request_is_not_approved_and_denied_and_a_certificate_stays(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await asked(api)
        assert (await say(api, ADMIN, "approval", conditions=[APPROVED, DENIED])).status == 422
        assert (await say(api, ADMIN, "approval", conditions=[APPROVED])).status == 200
        assert (await say(api, ADMIN, "status", certificate="eA==")).status == 200
        assert (await say(api, ADMIN, "status", certificate="eQ==")).status == 422

    tell(story, tmp_path)


def test_nobody_asks_for_a_certificate_of_those_who_may_do_everything(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        clients = "kubernetes.io/kube-apiserver-client"
        masters = csr(request("jane", "system:masters"), signerName=clients)
        answer = await api.post(REQUESTS, masters)
        assert answer.status == 403
        assert "system:masters group is not allowed" in answer.obj["message"]
        ordinary = csr(request("jane", "developers"), signerName=clients)
        assert (await api.post(REQUESTS, ordinary)).status == 201

    tell(story, tmp_path)
