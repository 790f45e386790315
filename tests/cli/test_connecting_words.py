"""What `fathom exec`, `cp` and `port-forward` read from their words, before they ask a server."""

from __future__ import annotations

from typing import Any

import pytest

from fathom.cli.main import command_first
from fathom.cli.objects.cp import FilePlace, place_of
from fathom.cli.objects.exec import container_of, exit_code
from fathom.cli.objects.port_forward import PortPair, pair_of, target_port
from fathom.cli.problem import Problem

POD: dict[str, Any] = {
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "main", "ports": [{"name": "http", "containerPort": 8080}]}]},
}


@pytest.mark.parametrize(
    ("text", "pair"), [("80", PortPair(80, 80)), ("8888:80", PortPair(8888, 80)), (":80", PortPair(0, 80))]
)
def test_ports_are_read_as_kubectl_reads_them(text: str, pair: PortPair) -> None:
    assert pair_of(text) == pair


@pytest.mark.parametrize("text", ["", "x", "80:", "0", "80:0", "70000", "1:2:3", "-1", "٣"])
def test_what_is_no_port_is_refused(text: str) -> None:
    with pytest.raises(Problem, match="ports read 8080, 8888:80 or :80, not"):
        pair_of(text)


def test_a_port_of_a_service_leads_to_the_pods() -> None:
    ports = [{"port": 80, "targetPort": "http"}, {"port": 81, "targetPort": 9}, {"port": 82}]
    service = {"metadata": {"name": "web"}, "spec": {"ports": ports}}
    assert [target_port(service, POD, port) for port in (80, 81, 82)] == [8080, 9, 82]
    with pytest.raises(Problem, match="service web has no port 8; it has 80, 81, 82"):
        target_port(service, POD, 8)
    with pytest.raises(Problem, match="pod web has no port named 'x'"):
        target_port({"spec": {"ports": [{"port": 1, "targetPort": "x"}]}}, POD, 1)


def test_a_file_is_here_or_in_a_pod() -> None:
    assert [place_of(text) for text in ("web:/pod/a", "web:a")] == [
        FilePlace("web", "/pod/a"),
        FilePlace("web", "a"),
    ]
    here = ("./web:a", "/pod/x:y", "a")
    assert [place_of(text) for text in here] == [FilePlace("", text) for text in here]
    for text in ("web:", ":/pod"):
        with pytest.raises(Problem, match="reads POD:PATH"):
            place_of(text)


def test_the_exit_code_is_the_commands() -> None:
    cause = b'{"reason": "ExitCode", "message": "7"}'
    assert exit_code(b'{"status": "Failure", "details": {"causes": [%b]}}' % cause) == 7
    assert exit_code(b'{"status": "Success"}') == 0
    for status, words in ((b'{"status": "Failure", "message": "no"}', "no"), (b"text", "text")):
        with pytest.raises(Problem, match=words):
            exit_code(status)


def test_the_container_is_the_one_named_or_the_pods_default() -> None:
    two: dict[str, Any] = {
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "a"}, {"name": "b"}]},
    }
    default = {"annotations": {"kubectl.kubernetes.io/default-container": "b"}, "name": "web"}
    assert (container_of(two, ""), container_of(two, "b")) == ("a", "b")
    assert container_of({**two, "metadata": default}, "") == "b"
    with pytest.raises(Problem, match="pod web has no container 'x'; it has a, b"):
        container_of(two, "x")


def test_flags_before_the_command_do_not_become_words_of_the_program() -> None:
    words = ["-n", "shop", "exec", "web", "--", "ls", "-n"]
    assert command_first(words) == ["exec", "web", "-n", "shop", "--", "ls", "-n"]
