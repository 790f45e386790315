"""A pod's own /etc/resolv.conf."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.agent.objects import pod

from fathom.agent.host.resolving import resolv_file
from fathom.model.objects import Obj

HOST = "# ours\nnameserver 192.0.2.1\nnameserver 192.0.2.2\nsearch lan\noptions ndots:1 rotate\n"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"dnsPolicy": "ClusterFirst"}, None),
        ({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["192.0.2.9"]}}, "nameserver 192.0.2.9\n"),
        (
            {"dnsConfig": {"searches": ["lan", "b"], "options": [{"name": "ndots", "value": "5"}]}},
            "nameserver 192.0.2.1\nnameserver 192.0.2.2\nsearch lan b\noptions ndots:5 rotate\n",
        ),
        (
            {"dnsConfig": {"nameservers": ["192.0.2.2", "192.0.2.3", "192.0.2.4"]}},
            "nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\nsearch lan\n"
            "options ndots:1 rotate\n",
        ),
    ],
)
def test_what_a_pod_says_is_added_to_what_the_machine_has_unless_it_wants_that_alone(
    tmp_path: Path, spec: Obj, expected: str | None
) -> None:
    host = tmp_path / "resolv.conf"
    host.write_text(HOST)
    assert resolv_file(pod(spec=spec), host) == expected
