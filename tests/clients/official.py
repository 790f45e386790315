"""What the suites of the official client share."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from kubernetes import client


def config_map(name: str, labels: dict[str, str] | None = None, **data: str) -> Any:
    meta = client.V1ObjectMeta(name=name, labels=labels)
    return client.V1ConfigMap(metadata=meta, data=data)


def names(listed: Any) -> list[str]:
    return [item.metadata.name for item in listed.items]


def refusal(call: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[int, Any]:
    """The code and the Status that a refused call raises."""
    with pytest.raises(client.ApiException) as raised:
        call(*arguments, **options)
    return raised.value.status, json.loads(raised.value.body)
