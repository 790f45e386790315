"""What programs find in their view of the files, and as whom: groups, places to write, names."""

from __future__ import annotations

import base64
import json

import pytest
from tests.agent.living import Cluster, condition, enclosed, is_root

pytestmark = [pytest.mark.live, enclosed]
OPEN = "/tmp"  # Everybody may write there.


@pytest.mark.skipif(not is_root(), reason="only root can choose")
def test_a_pods_groups_are_its_programs_and_its_fs_group_has_its_volumes(cluster: Cluster) -> None:
    who = {"runAsUser": 61234, "runAsGroup": 61235, "fsGroup": 61236, "supplementalGroups": [61237]}
    me = {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}], "defaultMode": 0o400}
    script = (
        "id -G; cd /room; touch file; stat -c '%g %a' . ; stat -c %g file; stat -c '%g %a' /me/name; sleep 60"
    )
    probe = {"exec": {"command": ["sh", "-c", "id -G | grep 61236"]}, "periodSeconds": 1}
    cluster.run(
        "grouped", "sh", "-c", script, securityContext=who,
        volumes=[{"name": "room", "emptyDir": {}}, {"name": "me", "downwardAPI": me}],
        container={
            "readinessProbe": probe,
            "volumeMounts": [{"name": "room", "mountPath": "/room"}, {"name": "me", "mountPath": "/me"}],
        },
    )  # fmt: skip
    pod = cluster.until_ready("grouped")
    assert condition(pod, "Ready") == "True"
    groups, room, file, name = cluster.logs("grouped").splitlines()
    assert sorted(groups.split()) == ["61235", "61236", "61237"]
    assert (room, file, name) == ("61236 2777", "61236", "61236 440")


def test_a_mount_below_a_directory_leaves_its_rights_as_they_are(cluster: Cluster) -> None:
    wrote = "f=$(mktemp fathom-XXXXXX) && echo x > $f && cat $f && rm $f"  # Nothing stays on the host.
    script = f"cd {OPEN}; {wrote} && ls fathom-below; stat -c %a ."
    cluster.run(
        "below", "sh", "-c", script, restartPolicy="Never", volumes=[{"name": "room", "emptyDir": {}}],
        container={"volumeMounts": [{"name": "room", "mountPath": f"{OPEN}/fathom-below/room"}]},
    )  # fmt: skip
    cluster.until_ended("below")
    assert cluster.logs("below") == "x\nroom\n1777\n"


def test_a_pod_says_which_names_it_knows(cluster: Cluster) -> None:
    config = {
        "nameservers": ["192.0.2.7"],
        "searches": ["a.example"],
        "options": [{"name": "ndots", "value": "2"}],
    }
    cluster.run(
        "names", "cat", "/etc/resolv.conf", restartPolicy="Never", dnsPolicy="None", dnsConfig=config
    )  # fmt: skip
    cluster.until_ended("names")
    assert cluster.logs("names") == "nameserver 192.0.2.7\nsearch a.example\noptions ndots:2\n"


def test_a_container_gets_variables_that_another_wrote_down(cluster: Cluster) -> None:
    room = {"name": "room", "mountPath": "/room"}
    writes = {"name": "writes", "image": "x", "command": ["sh", "-c", "echo \"A='written'\" > /room/env"]}
    reference = {"volumeName": "room", "path": "env", "key": "A"}
    cluster.run(
        "reads", "sh", "-c", "echo $A", restartPolicy="Never", volumes=[{"name": "room", "emptyDir": {}}],
        initContainers=[{**writes, "volumeMounts": [room]}],
        container={"env": [{"name": "A", "valueFrom": {"fileKeyRef": reference}}]},
    )  # fmt: skip
    cluster.until_ended("reads")
    assert cluster.logs("reads") == "written\n"


def test_a_token_is_good_for_as_long_as_the_pod_asks(cluster: Cluster) -> None:
    token = {"serviceAccountToken": {"path": "token", "audience": "vault", "expirationSeconds": 700}}
    cluster.run(
        "token", "cat", "/token/token", restartPolicy="Never",
        volumes=[{"name": "token", "projected": {"sources": [token]}}],
        container={"volumeMounts": [{"name": "token", "mountPath": "/token"}]},
    )  # fmt: skip
    cluster.until_ended("token")
    body = cluster.logs("token").split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    assert (claims["aud"], claims["exp"] - claims["iat"]) == (["vault"], 700)
