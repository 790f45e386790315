"""ClusterTrustBundles: their names, what is in them, and who may speak for a signer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.api.harness import ADMIN, JANE, Api, tell

from fathom.api.auth.certificates import ensure_pki
from fathom.model.objects import Obj
from fathom.seams.outside import SystemClock

BUNDLES = "/apis/certificates.k8s.io/v1/clustertrustbundles"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
SIGNER = "example.com/my-signer"


def pem(folder: Path) -> str:
    return ensure_pki(folder, clock=SystemClock()).ca_pem.decode()


def bundle(name: str, trust: str, signer: str = "") -> Obj:
    spec: Obj = {"trustBundle": trust}
    return {"metadata": {"name": name}, "spec": {**spec, **({"signerName": signer} if signer else {})}}


def refused(field: str, tmp_path: Path, **change: Any) -> None:
    async def story(api: Api) -> None:
        made = {"name": "a", "trust": pem(tmp_path / "ca"), **change}
        answer = await api.post(BUNDLES, bundle(**made))
        assert (answer.status, answer.reason) == (422, "Invalid")
        assert [one for one, _ in answer.causes] == [field], answer.obj

    tell(story, tmp_path)


@pytest.mark.parametrize("name", ["example.com:my-signer:v1", "example.com:my-signer:a.b.c"])
def test_a_bundle_of_a_signer_is_named_after_it(tmp_path: Path, name: str) -> None:
    async def story(api: Api) -> None:
        answer = await api.post(BUNDLES, bundle(name, pem(tmp_path / "ca"), SIGNER))
        assert answer.status == 201, answer.obj
        assert (await api.get(f"{BUNDLES}/{name}")).obj["spec"]["signerName"] == SIGNER
        assert (await api.get(f"{BUNDLES}/{name.replace(':', '%3A')}")).status == 200
        listed = (await api.get(f"{BUNDLES}?fieldSelector=spec.signerName={SIGNER}")).obj["items"]
        assert [one["metadata"]["name"] for one in listed] == [name]

    tell(story, tmp_path)


@pytest.mark.parametrize(
    "name", ["my-bundle", "example.com:other:v1", "example.com:my-signer:", "example.com:my-signer:A_B"]
)
def test_a_bundle_of_a_signer_with_another_name_is_refused(tmp_path: Path, name: str) -> None:
    refused("metadata.name", tmp_path, name=name, signer=SIGNER)


def test_a_bundle_of_no_signer_has_no_colon_in_its_name(tmp_path: Path) -> None:
    refused("metadata.name", tmp_path, name="example.com:my-signer:v1")


@pytest.mark.parametrize("signer", ["no-slash", "UPPER.com/x", "example.com/", "a/b/c?", "/x"])
def test_a_signer_is_a_domain_and_a_path(tmp_path: Path, signer: str) -> None:
    name = f"{signer.replace('/', ':')}:v1"

    async def story(api: Api) -> None:
        answer = await api.post(BUNDLES, bundle(name, pem(tmp_path / "ca"), signer))
        assert answer.status == 422
        assert "spec.signerName" in [one for one, _ in answer.causes]

    tell(story, tmp_path)


@pytest.mark.parametrize("what", ["", "nonsense", "key", "header", "torn", "twice"])
def test_a_bundle_holds_certificates_each_once_and_nothing_else(tmp_path: Path, what: str) -> None:
    good = pem(tmp_path / "ca")
    trust = {
        "": "",
        "nonsense": "no certificate",
        "key": good.replace("CERTIFICATE", "PRIVATE KEY"),
        "header": good.replace("-----\n", "-----\nProc-Type: 4\n\n", 1),
        "torn": good[: len(good) // 2],
        "twice": good + good,
    }[what]
    refused("spec.trustBundle", tmp_path, trust=trust)


def test_a_good_bundle_of_several_with_words_between_is_taken(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        trust = f"# ours\n{pem(tmp_path / 'one')}# theirs\n{pem(tmp_path / 'other')}"
        assert (await api.post(BUNDLES, bundle("a", trust))).status == 201

    tell(story, tmp_path)


def test_a_bundles_signer_never_changes(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        name, trust = "example.com:my-signer:v1", pem(tmp_path / "ca")
        await api.post(BUNDLES, bundle(name, trust, SIGNER))
        answer = await api.patch(f"{BUNDLES}/{name}", {"spec": {"signerName": "example.com/other"}})
        assert answer.status == 422
        assert "spec.signerName" in [one for one, _ in answer.causes]
        answer = await api.patch(f"{BUNDLES}/{name}", {"spec": {"trustBundle": "nonsense"}})
        assert [one for one, _ in answer.causes] == ["spec.trustBundle"]

    tell(story, tmp_path)


def test_only_who_may_attest_for_a_signer_writes_its_bundles(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        name, trust = "example.com:my-signer:v1", pem(tmp_path / "ca")
        group = "certificates.k8s.io"
        writes = {"apiGroups": [group], "resources": ["clustertrustbundles"], "verbs": ["*"]}
        attests = {"apiGroups": [group], "resources": ["signers"], "verbs": ["attest"]}
        for role, rules in (("w", [writes]), ("one", [{**attests, "resourceNames": [SIGNER]}]),
                            ("all", [{**attests, "resourceNames": ["example.com/*"]}])):  # fmt: skip
            await api.post(f"{RBAC}/clusterroles", {"metadata": {"name": role}, "rules": rules})

        async def bind(role: str) -> None:
            ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
            subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}
            made = {"metadata": {"name": role}, "roleRef": ref, "subjects": [subject]}
            assert (await api.post(f"{RBAC}/clusterrolebindings", made)).status == 201

        await bind("w")
        assert (await api.post(BUNDLES, bundle("free", trust), token=JANE)).status == 201
        answer = await api.post(BUNDLES, bundle(name, trust, SIGNER), token=JANE)
        assert answer.status == 403
        assert "attest" in answer.obj["message"]
        for role in ("one", "all"):
            await bind(role)
            assert (await api.post(BUNDLES, bundle(name, trust, SIGNER), token=JANE)).status == 201
            assert (await api.delete(f"{BUNDLES}/{name}", token=ADMIN)).status == 200
            assert (await api.delete(f"{RBAC}/clusterrolebindings/{role}")).status == 200
        await api.post(BUNDLES, bundle(name, trust, SIGNER))
        changed = {"metadata": {"labels": {"a": "b"}}}
        assert (await api.patch(f"{BUNDLES}/{name}", changed, token=JANE)).status == 403

    tell(story, tmp_path)
