"""Formats of short strings, against slow and obvious readings of the rules."""

from __future__ import annotations

import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fathom.model import formats

LOWER, ALNUM = set(string.ascii_lowercase + string.digits), set(string.ascii_letters + string.digits)
near_names = st.text(alphabet="aZ0-._/ é\n", max_size=12)


def is_label(text: str) -> bool:
    return 0 < len(text) <= 63 and set(text) <= LOWER | {"-"} and {text[0], text[-1]} <= LOWER


def is_subdomain(text: str) -> bool:
    parts = text.split(".")
    return len(text) <= 253 and all(p and set(p) <= LOWER | {"-"} and {p[0], p[-1]} <= LOWER for p in parts)


def is_word(text: str) -> bool:
    return 0 < len(text) <= 63 and set(text) <= ALNUM | set("-_.") and {text[0], text[-1]} <= ALNUM


def is_key(text: str) -> bool:
    prefix, slash, name = text.rpartition("/")
    return is_word(name) and (not slash or is_subdomain(prefix))


@given(st.one_of(near_names, st.text(max_size=8), st.text(alphabet="a-", min_size=60, max_size=66)))
def test_names_are_what_their_rules_say(text: str) -> None:
    assert (formats.dns_label(text) == []) == is_label(text)
    assert (formats.dns_subdomain(text) == []) == is_subdomain(text)
    assert (formats.qualified_name(text) == []) == is_key(text)
    assert (formats.label_value(text) == []) == (text == "" or is_word(text))
    assert (formats.dns_1035_label(text) == []) == (is_label(text) and not text[0].isdigit())


@pytest.mark.parametrize(
    ("address", "good"),
    [
        ("10.0.0.1", True),
        ("::1", True),
        ("2001:DB8::1", True),
        ("010.0.0.1", False),
        ("10.0.0", False),
        ("fe80::1%eth0", False),
        ("10.0.0.1/8", False),
        ("", False),
    ],
)
def test_addresses(address: str, good: bool) -> None:
    assert (formats.ip_address(address) == []) == good


@pytest.mark.parametrize(
    ("network", "good"),
    [("10.0.0.0/8", True), ("10.0.0.1/8", True), ("fd00::/64", True), ("10.0.0.1", False), ("x", False)],
)
def test_networks(network: str, good: bool) -> None:
    assert (formats.cidr(network) == []) == good


@pytest.mark.parametrize(
    ("address", "good"),
    [
        ("10.0.0.1", True),
        ("127.0.0.9", False),
        ("0.0.0.0", False),
        ("169.254.1.1", False),
        ("fe80::1", False),
        ("224.0.0.5", False),
        ("239.1.1.1", True),
    ],
)
def test_addresses_that_others_can_reach(address: str, good: bool) -> None:
    assert (formats.endpoint_ip(address) == []) == good


@pytest.mark.parametrize("key", ["a", "A_b.c-d", ".hidden", "...x", "..x", ".", "..", "", "a b", "x" * 254])
def test_keys_become_file_names(key: str) -> None:
    good = bool(key) and set(key) <= ALNUM | set("-_.") and len(key) <= 253 and key != "."
    assert (formats.config_key(key) == []) == (good and not key.startswith(".."))


@pytest.mark.slow
def test_a_megabyte_of_nonsense_is_refused_at_once() -> None:
    start = time.process_time()
    for text in ("a" * 2**20 + "!", "-" * 2**20, "a." * 2**19, "a/" * 2**19, "a-" * 2**19):
        for rule in (formats.dns_label, formats.dns_subdomain, formats.qualified_name, formats.label_value):
            assert rule(text)
    assert time.process_time() - start < 5
