"""String formats and patterns of structural schemas. As in Kubernetes, other formats are not checked."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import Any, Final

from fathom.kube.definitions import scalars
from fathom.model import formats

_is_uuid = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}").fullmatch
_is_duration = re.compile(r"[-+]?(?:0|(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|ms|s|m|h|d|w))+)").fullmatch
_is_mac = re.compile(r"(?i)[0-9a-f]{2}([:-])[0-9a-f]{2}(?:\1[0-9a-f]{2}){4}").fullmatch
_is_email = re.compile(r"[^@\s]+@[^@\s]+").fullmatch
_is_uri = re.compile(r"(?i)(?:[a-z][a-z0-9+.-]*:\S+|/\S*)").fullmatch
_is_date = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII).fullmatch


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """A search with a user's pattern. The engine is linear in the text's length, like the RE2 that Kubernetes
    uses: no pattern can hang the server. Raises ValueError."""
    import jsonschema_rs  # noqa: PLC0415 - a tenth of our start, for schemas with patterns only

    options = jsonschema_rs.RegexOptions()
    return jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=options).is_valid


def _reads(normalise: Callable[[str], Any]) -> Callable[[str], bool]:
    def well_formed(text: str) -> bool:
        try:
            normalise(text)
        except ValueError:
            return False
        return True

    return well_formed


def _of_text(well_formed: Callable[[str], Any]) -> Callable[[Any], bool]:
    return lambda value: not isinstance(value, str) or bool(well_formed(value))


def _of_bits(bits: int) -> Callable[[Any], bool]:
    limit = 2 ** (bits - 1)
    return lambda value: not isinstance(value, int) or -limit <= value < limit


def _no_reasons(reasons: Callable[[str], list[str]]) -> Callable[[str], bool]:
    return lambda text: not reasons(text)


# Each accepts any value that is not of the format's type.
FORMATS: Final[dict[str, Callable[[Any], bool]]] = {
    "int32": _of_bits(32),
    "int64": _of_bits(64),
    "date-time": _of_text(_reads(scalars.time)),
    "datetime": _of_text(_reads(scalars.time)),
    "date": _of_text(lambda text: _is_date(text) and _reads(date.fromisoformat)(text)),
    "duration": _of_text(_is_duration),
    "byte": _of_text(_reads(scalars.blob)),
    "uuid": _of_text(_is_uuid),
    "mac": _of_text(_is_mac),
    "email": _of_text(_is_email),
    "uri": _of_text(_is_uri),
    "hostname": _of_text(_no_reasons(formats.dns_subdomain)),
    "ipv4": _of_text(lambda text: not formats.ip_address(text) and not formats.is_ipv6(text)),
    "ipv6": _of_text(lambda text: not formats.ip_address(text) and formats.is_ipv6(text)),
    "cidr": _of_text(_no_reasons(formats.cidr)),
}
