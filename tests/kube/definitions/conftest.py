"""One registry for the whole suite: it is never changed here."""

from __future__ import annotations

import pytest

from fathom.kube.definitions.decode import Decoder
from fathom.kube.definitions.registry import Registry


@pytest.fixture(scope="session")
def registry() -> Registry:
    return Registry.builtin()


@pytest.fixture(scope="session")
def decoder(registry: Registry) -> Decoder:
    return registry.decoder()
