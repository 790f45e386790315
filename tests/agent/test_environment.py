"""What a container's environment, files and words are made of."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from tests.agent.objects import container, pod

from fathom.agent.host.account import PLACE, ROOT_CA, with_account
from fathom.agent.host.api_reads import references
from fathom.agent.host.environment import (
    Surroundings,
    Unresolved,
    environment,
    hosts_file,
    service_variables,
)
from fathom.agent.host.files import File, shows_metadata, volume_files, write_volume
from fathom.agent.host.images import BadImages, Image, ImagesFile, argv_of, find_image, read_images
from fathom.agent.variable_expansion import expand
from fathom.model.objects import Obj


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"), ("x$(A)y$(B)", "x1y2"), ("$(NONE)", "$(NONE)"), ("$$(A)", "$(A)"), ("$$$(A)", "$1"),
        ("$A", "$A"), ("$(A", "$(A"), ("$", "$"), ("$$", "$"), ("", ""), ("$()", "$()"), ("$(A)$(A)", "11"),
    ],
)  # fmt: skip
def test_references_are_replaced_by_what_was_said_before(text: str, expected: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == expected


def around(**fields: Any) -> Surroundings:
    found = {"pod": pod(metadata={"labels": {"app": "web", "tier": 'a"b'}}), **fields}
    return Surroundings(pod_ip="127.130.0.2", host_ip="127.130.0.1", **found)


def env_of(*env: Obj, where: Surroundings | None = None, **fields: Any) -> dict[str, str]:
    found = environment(container(env=list(env), **fields), where or around())
    return {one["name"]: found[one["name"]] for one in env if one["name"] in found}


def ref(name: str, **source: Obj) -> Obj:
    return {"name": name, "valueFrom": source}


def test_values_come_from_fields_of_the_pod() -> None:
    paths = ("metadata.name", "metadata.uid", "status.podIP", "metadata.labels['app']", "metadata.labels")
    found = env_of(*(ref(str(at), fieldRef={"fieldPath": path}) for at, path in enumerate(paths)))
    assert list(found.values()) == ["web", "u1", "127.130.0.2", "web", 'app="web"\ntier="a\\"b"']


@pytest.mark.parametrize(
    ("resource", "divisor", "expected"),
    [
        ("limits.cpu", "", "2"), ("limits.cpu", "1m", "1500"), ("limits.memory", "1Mi", "64"),
        ("requests.cpu", "1m", "250"), ("requests.memory", "", "67108864"),
        ("limits.ephemeral-storage", "", "7"), ("requests.ephemeral-storage", "", "0"),
    ],
)  # fmt: skip
def test_amounts_are_told_in_the_unit_asked_for_and_rounded_up(
    resource: str, divisor: str, expected: str
) -> None:
    resources = {"limits": {"cpu": "1500m", "memory": "64Mi"}, "requests": {"cpu": "250m"}}
    asked = {"resource": resource, **({"divisor": divisor} if divisor else {})}
    where = around(allocatable={"ephemeral-storage": "7"})
    assert env_of(ref("X", resourceFieldRef=asked), where=where, resources=resources) == {"X": expected}


def test_later_values_use_earlier_ones_and_the_pods_own() -> None:
    first, second = (
        {"name": "URL", "value": "http://$(POD_IP):80"},
        {"name": "LINK", "value": "$(URL)/x $(LATER)"},
    )
    last = {"name": "LATER", "value": "late"}
    assert env_of(first, second, last) == {
        "URL": "http://127.130.0.2:80", "LINK": "http://127.130.0.2:80/x $(LATER)", "LATER": "late",
    }  # fmt: skip


def test_what_is_not_there_is_named_unless_it_is_optional() -> None:
    key = {"name": "conf", "key": "a"}
    there = around(config_maps={"conf": {"data": {"b": "1"}}}, secrets={"none": None})
    assert env_of(ref("A", configMapKeyRef={**key, "optional": True}), where=there) == {}
    with pytest.raises(Unresolved, match='couldn\'t find key a in configmap "conf"'):
        env_of(ref("A", configMapKeyRef=key), where=there)
    with pytest.raises(Unresolved, match='secret "none" not found'):
        environment(container(envFrom=[{"secretRef": {"name": "none"}}]), there)


def test_variables_are_a_config_maps_texts_and_never_hold_a_nul() -> None:
    both = {"data": {"a": "1", "9.b-c": "2"}, "binaryData": {"raw": base64.b64encode(b"\0\1").decode()}}
    where = around(config_maps={"conf": both}, secrets={"keys": {"data": {"raw": both["binaryData"]["raw"]}}})
    found = environment(container(envFrom=[{"configMapRef": {"name": "conf"}}]), where)
    assert (found["a"], found["9.b-c"], "raw" in found) == ("1", "2", False)
    with pytest.raises(Unresolved, match="env S_raw: its value has a NUL byte, which no variable can hold"):
        environment(container(envFrom=[{"prefix": "S_", "secretRef": {"name": "keys"}}]), where)


def service(name: str, address: str, *ports: Obj) -> Obj:
    meta = {"name": name, "namespace": "default"}
    return {"metadata": meta, "spec": {"clusterIP": address, "ports": list(ports)}}


def test_services_are_found_by_their_usual_variables() -> None:
    web = service("my-web", "127.96.1.1", {"name": "http", "port": 80})
    headless = service("h", "None", {"port": 1})
    assert service_variables((web, headless), "default", links=True) == {
        "MY_WEB_SERVICE_HOST": "127.96.1.1",
        "MY_WEB_SERVICE_PORT": "80",
        "MY_WEB_SERVICE_PORT_HTTP": "80",
        "MY_WEB_PORT": "tcp://127.96.1.1:80",
        "MY_WEB_PORT_80_TCP": "tcp://127.96.1.1:80",
        "MY_WEB_PORT_80_TCP_PROTO": "tcp",
        "MY_WEB_PORT_80_TCP_PORT": "80",
        "MY_WEB_PORT_80_TCP_ADDR": "127.96.1.1",
    }
    assert service_variables((web,), "default", links=False) == {}
    assert service_variables((web,), "elsewhere", links=True) == {}


# Files.


def test_a_projected_volume_is_the_sum_of_its_sources() -> None:
    secret = {"data": {"pin": base64.b64encode(b"1234").decode()}}
    where = around(config_maps={"conf": {"data": {"a": "1", "b": "2"}}}, secrets={"keys": secret})
    name = {"path": "meta/name", "fieldRef": {"fieldPath": "metadata.name"}}
    sources = [
        {"configMap": {"name": "conf", "items": [{"key": "a", "path": "x/a", "mode": 0o600}]}},
        {"secret": {"name": "keys"}},
        {"downwardAPI": {"items": [name]}},
        {"serviceAccountToken": {"path": "token", "audience": "me"}},
    ]
    volume = {"name": "all", "projected": {"sources": sources, "defaultMode": 0o440}}
    assert volume_files(volume, where, {"me": "t0ken"}) == {
        "x/a": File(b"1", 0o600), "pin": File(b"1234", 0o440), "meta/name": File(b"web", 0o440),
        "token": File(b"t0ken", 0o440),
    }  # fmt: skip


def test_a_volume_of_another_kind_is_refused_in_words() -> None:
    with pytest.raises(Unresolved, match='volume "v" has a type that this agent does not support: nfs'):
        volume_files({"name": "v", "nfs": {}}, around(), {})
    evil = {"name": "v", "configMap": {"name": "c", "items": [{"key": "a", "path": "../../etc/passwd"}]}}
    with pytest.raises(Unresolved, match="leads out of its volume"):
        volume_files(evil, around(config_maps={"c": {"data": {"a": "1"}}}), {})


def test_a_volume_changes_under_those_who_have_it_mounted(tmp_path: Path) -> None:
    place = tmp_path / "v"
    assert write_volume(place, {"old": File(b"1"), "kept/x": File(b"2"), "gone/y": File(b"")}, None)
    before = place.stat().st_ino
    assert write_volume(place, {"kept/x": File(b"3", 0o600)}, None)
    assert not write_volume(place, {"kept/x": File(b"3", 0o600)}, None)
    assert place.stat().st_ino == before
    assert {str(one.relative_to(place)) for one in place.rglob("*")} == {"kept", "kept/x"}
    assert (place / "kept/x").read_bytes() == b"3"
    assert (place / "kept/x").stat().st_mode & 0o777 == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["v"]


def test_a_pod_finds_itself_by_its_hosts_name() -> None:
    aliases = [{"ip": "127.130.0.9", "hostnames": ["db", "db.example"]}]
    plain = pod(spec={"hostAliases": aliases})
    below = pod(metadata={"name": f"{'w' * 62}-0"}, spec={"subdomain": "all"})
    loopback = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
    assert hosts_file(plain, "127.130.0.2") == f"{loopback}127.130.0.2 web\n127.130.0.9 db db.example\n"
    assert hosts_file(below, "127.130.0.2") == (
        f"{loopback}127.130.0.2 {'w' * 62}.all.default.svc.cluster.local {'w' * 62}\n"
    )


def test_labels_in_a_volume_are_looked_at_again() -> None:
    def shown(path: str) -> Obj:
        return {"items": [{"path": "x", "fieldRef": {"fieldPath": path}}]}

    seen = pod(spec={"volumes": [{"name": "v", "downwardAPI": shown("metadata.labels['a']")}]})
    projected = {"name": "v", "projected": {"sources": [{"downwardAPI": shown("metadata.annotations")}]}}
    assert shows_metadata(seen)
    assert shows_metadata(pod(spec={"volumes": [projected]}))
    assert not shows_metadata(with_account(pod()))


def test_what_a_pod_refers_to_is_found_in_all_places() -> None:
    env = [
        ref("A", configMapKeyRef={"name": "m1", "key": "k"}),
        ref("B", secretKeyRef={"name": "s1", "key": "k"}),
    ]
    volumes = [
        {"name": "a", "configMap": {"name": "m2"}}, {"name": "b", "secret": {"secretName": "s2"}},
        {"name": "c", "projected": {"sources": [{"configMap": {"name": "m3"}}, {"secret": {"name": "s1"}}]}},
    ]  # fmt: skip
    whole = pod(container(env=env, envFrom=[{"configMapRef": {"name": "m4"}}]), spec={"volumes": volumes})
    assert references(whole) == (["m4", "m1", "m2", "m3"], ["s1", "s2"])


def test_every_container_finds_its_account_where_clients_look() -> None:
    own = {"name": "mine", "mountPath": f"{PLACE}/"}
    plain = pod(container(), container("other", volumeMounts=[own]), init=(container("before"),))
    whole = with_account(plain)
    mount = {"name": "kube-api-access", "mountPath": PLACE, "readOnly": True}
    assert whole["spec"]["containers"] == [
        container(volumeMounts=[mount]), container("other", volumeMounts=[own]),
    ]  # fmt: skip
    assert whole["spec"]["initContainers"] == [container("before", volumeMounts=[mount])]
    (volume,) = whole["spec"]["volumes"]
    maps: dict[str, Obj | None] = {ROOT_CA: {"data": {"ca.crt": "PEM"}}}
    assert volume_files(volume, around(config_maps=maps), {"": "T"}) == {
        "token": File(b"T"), "ca.crt": File(b"PEM"), "namespace": File(b"default"),
    }  # fmt: skip
    assert references(whole) == ([], [])
    assert with_account(whole) == whole
    silent = pod(spec={"automountServiceAccountToken": False})
    assert with_account(silent) == silent


# Images.

IMAGES = {
    "nginx": Image(("python3", "-m", "http.server")),
    "reg.io/app:1.2": Image(("./app", "--local")),
    "reg.io/tools/*": Image(("tool",)),
}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nginx", "nginx"), ("nginx:1.27", "nginx"), ("docker.io/library/nginx:1.27", "nginx"),
        ("nginx@sha256:ab", "nginx"), ("reg.io/app:1.2", "reg.io/app:1.2"), ("reg.io/app:1.3", None),
        ("reg.io/tools/x:9", "reg.io/tools/*"), ("localhost:5000/nginx", "nginx"), ("other", None),
    ],
)  # fmt: skip
def test_images_are_found_by_name_without_tag_by_last_part_and_by_pattern(
    name: str, expected: str | None
) -> None:
    assert find_image(IMAGES, name) == (IMAGES[expected] if expected else None)


def test_a_command_wins_and_args_follow_the_program() -> None:
    own = argv_of(container(image="unknown", command=["run"], args=["-v"]), IMAGES)
    assert own == (["run", "-v"], None)
    assert argv_of(container(image="nginx", args=["80"]), IMAGES) == (["python3", "80"], IMAGES["nginx"])
    assert argv_of(container(image="nginx"), IMAGES) == (["python3", "-m", "http.server"], IMAGES["nginx"])
    assert "--images" in str(argv_of(container(image="unknown"), IMAGES))


def test_args_of_an_unknown_image_are_the_program_as_with_images_without_entrypoint() -> None:
    """`kubectl run --image busybox -- sleep 10` has no command."""
    assert argv_of(container(image="busybox", args=["sleep", "10"]), IMAGES) == (["sleep", "10"], None)
    assert "--images" in str(argv_of(container(image="app", args=["--port=80"]), IMAGES))


def test_an_images_file_is_read_or_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "images.toml"
    file.write_text(
        'nginx = ["serve", "80"]\napp = { command = ["a"], env = { X = "1" }, workingDir = "/srv" }'
    )
    assert read_images(file) == {
        "nginx": Image(("serve", "80")), "app": Image(("a",), {"X": "1"}, "/srv"),
    }  # fmt: skip
    for text in ("nginx = 3", "nginx = []", "nginx =", 'nginx = { comand = ["x"] }'):
        file.write_text(text)
        with pytest.raises(BadImages, match=r"images.toml: [^\n]+$"):
            read_images(file)
    with pytest.raises(BadImages, match="No such file"):
        read_images(tmp_path / "none")


def test_a_changed_images_file_is_read_again_and_a_broken_one_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "images.toml"
    file.write_text('a = ["one"]')
    images = ImagesFile(file)
    assert (images.now(), images.problem) == ({"a": Image(("one",))}, "")
    file.write_text('a = ["another"]')
    assert (images.now(), images.problem) == ({"a": Image(("another",))}, "")
    file.write_text("a =")
    assert images.now() == {"a": Image(("another",))}
    assert "images.toml" in images.problem
    file.unlink()
    assert (images.now(), images.problem) == (
        {"a": Image(("another",))},
        f"{file}: No such file or directory",
    )
    assert ImagesFile().now() == {}
