"""Where a request comes from: whether a browser sends it for our own page. Pure.

The Host must be a name of this server (another name that leads here may be an attacker's), the Origin the
same address, and the browser's own word (`Sec-Fetch-Site`) must not be that another site asks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from http.cookies import CookieError, SimpleCookie

from fathom.model.errors import ApiError, forbidden

COOKIE = "__Host-fathom"
KEY_HEADER = "x-fathom-key"
SITE = "sec-fetch-site"
OUR_SITE = frozenset({"same-origin", "none"})  # none: the user typed the address.
READING = frozenset({"GET", "HEAD", "OPTIONS"})


def host_name(header: str) -> str:
    """The name in a Host header, without port and brackets, in lower case."""
    header = header.strip().lower()
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.rpartition(":")[0] if ":" in header else header


def host_refusal(headers: Mapping[str, str], names: Collection[str]) -> ApiError | None:
    host = headers.get("host", "")
    if host_name(host) in names:
        return None
    return forbidden(
        f"the page is not served under the name {host_name(host)[:100]!r}: use a name of the server's"
        " certificate, or start the server with --page-host"
    )


def origin_refusal(headers: Mapping[str, str]) -> ApiError | None:
    """For requests that carry a session, or begin one."""
    origin, site = headers.get("origin"), headers.get(SITE)
    if origin is not None and origin.lower() != f"https://{headers.get('host', '').strip().lower()}":
        return forbidden("the request comes from a page of another address")
    if site is not None and site not in OUR_SITE:
        return forbidden("the request comes from a page of another site")
    return None


def is_cross_site_write(method: str, headers: Mapping[str, str]) -> bool:
    """A browser says so of a request that a page of another site makes, with whatever credentials."""
    return method not in READING and headers.get(SITE, "none") not in OUR_SITE


def cookie_of(headers: Mapping[str, str]) -> str | None:
    """The session's cookie; None if there is none."""
    text = headers.get("cookie")
    if text is None or COOKIE not in text:
        return None
    try:
        jar = SimpleCookie(text.replace("\n", "; "))  # A repeated header's values are joined by newlines.
    except CookieError:
        return None
    return jar[COOKIE].value if COOKIE in jar else None


def cookie_header(value: str, *, seconds: int) -> str:
    return f"{COOKIE}={value}; Path=/; Max-Age={seconds}; HttpOnly; Secure; SameSite=Strict"
