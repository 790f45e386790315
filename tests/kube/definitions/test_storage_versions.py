"""`storageVersionHash` in discovery: the same as kube-apiserver's for the same stored version."""

from __future__ import annotations

from pathlib import Path

from tests.api.harness import Api, tell

# As kube-apiserver has them.
KNOWN = {
    ("/api/v1", "pods"): "xPOwRZ+Yhw8=",
    ("/api/v1", "events"): "r2yiGXH7wu8=",
    ("/apis/events.k8s.io/v1", "events"): "r2yiGXH7wu8=",
    ("/apis/apps/v1", "deployments"): "8aSe+NMegvE=",
    ("/api/v1", "configmaps"): "qFsyl6wFWjQ=",
    ("/api/v1", "nodes"): "XwShjMxG9Fs=",
}
NOT_STORED = (
    "bindings", "bindingbatches", "nodeconnections", "decisions", "explanations", "timelines", "couplings",
    "overridepreviews",
)  # fmt: skip
CRD = {
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Thing", "plural": "things"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}


def test_every_stored_resource_has_the_hash_of_its_stored_version(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)

        async def served() -> bool:
            return (await api.get("/apis/example.com/v1")).status == 200

        await api.eventually(served)
        groups = (await api.get("/apis")).obj["groups"]
        paths = ["/api/v1", *(f"/apis/{one['preferredVersion']['groupVersion']}" for one in groups)]
        found: dict[tuple[str, str], str] = {}
        for path in paths:
            for resource in (await api.get(path)).obj["resources"]:
                found[path, resource["name"]] = resource.get("storageVersionHash", "")
        assert {key: found[key] for key in KNOWN} == KNOWN
        assert found["/apis/example.com/v1", "things"]
        for (path, name), value in found.items():
            review = name.endswith("reviews") and name != "overridereviews"
            answered = review or name in NOT_STORED or "metrics" in path
            assert bool(value) == ("/" not in name and not answered), (path, name)

    tell(story, tmp_path)


def test_the_aggregated_document_has_none_as_in_kubernetes(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        accept = {"accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
        answer = await api.raw("GET", "/api", headers=accept)
        assert b"storageVersionHash" not in getattr(answer, "body", b"")

    tell(story, tmp_path)
