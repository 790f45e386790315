"""A gateway that is killed: whoever connects to a Service meanwhile waits, and is not refused."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections import Counter

import pytest
from tests.cluster.living import Cluster, until
from tests.cluster.test_cluster import remove, run

pytestmark = pytest.mark.live

KILLS = 3
ANSWER_S_MAX = 20.0
REQUEST = b"GET / HTTP/1.0\r\n\r\n"


def asked(address: str) -> str:
    """How one request ended. Those that the gateway carried when it was killed are reset; no other may be."""
    try:
        with socket.create_connection((address, 80), timeout=ANSWER_S_MAX) as connection:
            connection.sendall(REQUEST)
            return "answered" if connection.recv(64).startswith(b"HTTP/1.0 200") else "cut off"
    except ConnectionResetError:
        return "cut off"
    except OSError as error:
        return type(error).__name__


def test_no_connection_is_refused_while_the_gateway_is_killed_again_and_again(cluster: Cluster) -> None:
    run(cluster, "kept", 2)
    address = cluster.ask("GET", "/api/v1/namespaces/default/services/kept")["spec"]["clusterIP"]
    ended, over = Counter[str](), threading.Event()

    def go_on_asking() -> None:
        while not over.is_set():
            ended[asked(address)] += 1
            time.sleep(0.005)

    client = threading.Thread(target=go_on_asking)
    client.start()
    try:
        for _ in range(KILLS):
            killed = cluster.parts()["gateway"]
            answered = ended["answered"]
            os.kill(killed, signal.SIGKILL)
            until(lambda: cluster.parts().get("gateway", killed) != killed, cluster.told)  # noqa: B023
            until(lambda: ended["answered"] > answered + 20, lambda: str(ended))  # noqa: B023
    finally:
        over.set()
        client.join()
    assert set(ended) <= {"answered", "cut off"}, ended
    assert ended["cut off"] <= KILLS, ended
    remove(cluster, "kept")
