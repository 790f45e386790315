"""The formats of names and other short strings. Each function returns what is wrong with a value: nothing if
it is well formed. The fast path is one regular expression; messages are made only on refusal.
"""

from __future__ import annotations

import ipaddress
import re

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_UNDERSCORED = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_KEY_NAME})?"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_PERCENT = "[0-9]+%"
_HEADER = "[-A-Za-z0-9]+"
_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"

_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_underscored = re.compile(rf"{_UNDERSCORED}(\.{_UNDERSCORED})*").fullmatch
_is_label_1035 = re.compile(_LABEL_1035).fullmatch
_is_key_name = re.compile(_KEY_NAME).fullmatch
_is_label_value = re.compile(_LABEL_VALUE).fullmatch
_is_config_key = re.compile(_CONFIG_KEY).fullmatch
_is_percent = re.compile(_PERCENT).fullmatch
_is_header = re.compile(_HEADER).fullmatch
_is_http_path = re.compile(_HTTP_PATH).fullmatch
_is_port_charset = re.compile("[-a-z0-9]+").fullmatch
_has_letter = re.compile("[a-z]").search
# The common case of a label key: both parts and their lengths at once.
_is_plain_key = re.compile(rf"(?:(?=[^/]{{1,253}}/){_SUBDOMAIN}/)?(?=[^/]{{1,63}}\Z){_KEY_NAME}").fullmatch

LABEL_MAX = 63
SUBDOMAIN_MAX = 253

_LABEL_WORDS = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character"
)
_SUBDOMAIN_WORDS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character"
)
_UNDERSCORED_WORDS = _SUBDOMAIN_WORDS.replace("'-' or '.'", "'_', '-' or '.'")
_LABEL_1035_WORDS = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character"
)
_KEY_WORDS = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character"
)
_LABEL_VALUE_WORDS = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character"
)
_CONFIG_KEY_WORDS = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"


def _regex_words(words: str, pattern: str, *examples: str) -> str:
    if not examples:
        return f"{words} (regex used for validation is '{pattern}')"
    listed = " or ".join(f"'{example}', " for example in examples)
    return f"{words} (e.g. {listed}regex used for validation is '{pattern}')"


def _too_long(value: str, limit: int, unit: str) -> list[str]:
    return [f"must be no more than {limit} {unit}"] if len(value.encode()) > limit else []


def dns_label(value: str) -> list[str]:
    if len(value) <= LABEL_MAX and _is_label(value):
        return []
    reasons = _too_long(value, LABEL_MAX, "characters")
    if _is_label(value):
        return reasons
    if _is_subdomain(value):
        return [*reasons, "must not contain dots"]
    return [*reasons, _regex_words(_LABEL_WORDS, _LABEL, "my-name", "123-abc")]


def dns_subdomain(value: str) -> list[str]:
    if len(value) <= SUBDOMAIN_MAX and _is_subdomain(value):
        return []
    reasons = _too_long(value, SUBDOMAIN_MAX, "characters")
    if _is_subdomain(value):
        return reasons
    return [*reasons, _regex_words(_SUBDOMAIN_WORDS, _SUBDOMAIN, "example.com")]


def dns_subdomain_underscored(value: str) -> list[str]:
    """For DNS search paths, where a label may have underscores."""
    reasons = _too_long(value, SUBDOMAIN_MAX, "characters")
    if not _is_underscored(value):
        pattern = rf"{_UNDERSCORED}(\.{_UNDERSCORED})*"
        reasons.append(_regex_words(_UNDERSCORED_WORDS, pattern, "example.com"))
    return reasons


def dns_1035_label(value: str) -> list[str]:
    if len(value) <= LABEL_MAX and _is_label_1035(value):
        return []
    reasons = _too_long(value, LABEL_MAX, "characters")
    if not _is_label_1035(value):
        reasons.append(_regex_words(_LABEL_1035_WORDS, _LABEL_1035, "my-name", "abc-123"))
    return reasons


def qualified_name(value: str) -> list[str]:
    """A label key, a finalizer, a condition type: a name with an optional domain before a slash."""
    if _is_plain_key(value):
        return []
    words = _regex_words(_KEY_WORDS, _KEY_NAME, "MyName", "my.name", "123-abc")
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        tail = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {words}{tail}"]
    reasons = []
    if slash and not prefix:
        reasons.append("prefix part must be non-empty")
    elif slash:
        reasons += [f"prefix part {reason}" for reason in dns_subdomain(prefix)]
    if not name:
        reasons.append("name part must be non-empty")
    reasons += [f"name part {reason}" for reason in _too_long(name, LABEL_MAX, "bytes")]
    if not _is_key_name(name):
        reasons.append(f"name part {words}")
    return reasons


def label_value(value: str) -> list[str]:
    if len(value) <= LABEL_MAX and _is_label_value(value):
        return []
    reasons = _too_long(value, LABEL_MAX, "bytes")
    if not _is_label_value(value):
        reasons.append(_regex_words(_LABEL_VALUE_WORDS, _LABEL_VALUE, "MyValue", "my_value", "12345"))
    return reasons


def path_segment(value: str) -> list[str]:
    """Names that only have to fit into a URL: RBAC's."""
    if value in {".", ".."}:
        return [f"may not be '{value}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in value]


def config_key(value: str) -> list[str]:
    """A key of a ConfigMap or a Secret, which becomes a file name."""
    if len(value) <= SUBDOMAIN_MAX and _is_config_key(value) and not value.startswith("."):
        return []
    reasons = _too_long(value, SUBDOMAIN_MAX, "characters")
    if not _is_config_key(value):
        reasons.append(_regex_words(_CONFIG_KEY_WORDS, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    if value in {".", ".."}:
        reasons.append(f"must not be '{value}'")
    elif value.startswith(".."):
        reasons.append("must not start with '..'")
    return reasons


def env_name(value: str) -> list[str]:
    if value.isascii() and value.isprintable() and "=" not in value:
        return [] if value else ["environment variable name must be non-empty"]
    return [
        "a valid environment variable name must consist only of printable ASCII characters other than '='"
    ]


def port_number(value: int) -> list[str]:
    return [] if 1 <= value <= 65535 else ["must be between 1 and 65535, inclusive"]


def port_name(value: str) -> list[str]:
    reasons = _too_long(value, 15, "characters")
    if not _is_port_charset(value):
        reasons.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _has_letter(value):
        reasons.append("must contain at least one letter (a-z)")
    if "--" in value:
        reasons.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        reasons.append("must not begin or end with a hyphen")
    return reasons


def percent(value: str) -> list[str]:
    if _is_percent(value):
        return []
    words = "a valid percent string must be a numeric string followed by an ending '%'"
    return [_regex_words(words, _PERCENT, "1%", "93%")]


def http_header(value: str) -> list[str]:
    if _is_header(value):
        return []
    words = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return [_regex_words(words, _HEADER, "X-Header-Name")]


def http_path(value: str) -> list[str]:
    return [] if _is_http_path(value) else [_regex_words("Invalid path", _HTTP_PATH)]


def user_or_group_id(value: int) -> list[str]:
    return [] if 0 <= value <= 2147483647 else ["must be between 0 and 2147483647, inclusive"]


def ip_address(value: str) -> list[str]:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    # Python accepts a zone id, which no API field may have.
    return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"] if "%" in value else []


def endpoint_ip(value: str) -> list[str]:
    """Why other machines could not reach a well-formed address."""
    ip = ipaddress.ip_address(value)
    reasons = []
    if ip.is_unspecified:
        reasons.append(f"may not be unspecified ({value})")
    if ip.is_loopback:
        reasons.append("may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if ip.is_link_local:
        reasons.append("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if ip.is_multicast and value.lower().startswith(("224.0.0.", "ff02:")):
        reasons.append("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
    return reasons


def cidr(value: str) -> list[str]:
    try:
        ipaddress.ip_network(value, strict=False)
    except ValueError:
        return [_CIDR_WORDS]
    return [] if "/" in value and "%" not in value else [_CIDR_WORDS]


_CIDR_WORDS = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def is_ipv6(value: str) -> bool:
    return ":" in value
