"""The text of HTTP: parse request addresses, write heads and chunks. Pure; `http` has the connection."""

from __future__ import annotations

from http import HTTPStatus
from urllib.parse import parse_qs

import httptools

from fathom.api.request import Response, StreamResponse, UpgradeResponse
from fathom.model.errors import ApiError, bad_request

QUERY_FIELDS_MAX = 100

TOO_MUCH_HEAD = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
)
TOO_LONG_URL = b"HTTP/1.1 414 URI Too Long\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
TOO_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n"
)
NOT_HTTP = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
# Headers that nearly every request has, as clients spell them: bytes -> lower-case name.
HEADERS = {
    spelling.encode(): name
    for name in (
        "accept", "accept-encoding", "authorization", "connection", "content-length", "content-type",
        "fathom-actor", "fathom-decision", "fathom-fence", "fathom-overrides-seen",
        "host", "traceparent", "user-agent",
    )
    for spelling in (name, name.title())
}  # fmt: skip
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"

_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}" for status in HTTPStatus}


def split(url: bytes) -> tuple[bytes, bytes]:
    """(path, query). The parser judges anything but a plain address."""
    if url.startswith(b"/") and b"#" not in url:
        path, _, query = url.partition(b"?")
        return path, query
    parsed = httptools.parse_url(url)
    return parsed.path or b"/", parsed.query or b""


def parsed(query: bytes) -> dict[str, list[str]]:
    try:
        return parse_qs(query.decode(), keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX)
    except (ValueError, UnicodeDecodeError):
        raise bad_request("the query string could not be read") from None


def check_coding(transfer_encoding: str) -> None:
    """Raise 501 for a body in a coding that is not read here, such as `gzip, chunked`."""
    if transfer_encoding.strip().lower() != "chunked":
        raise ApiError(501, "NotImplemented", f'transfer encoding "{transfer_encoding}" is not supported')


def has_body(headers: dict[str, str]) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0").strip("0") != ""


def head_of_body(headers: dict[str, str]) -> bytes:
    """The head of a request that has the same body and asks for nothing else."""
    names = ("content-length", "transfer-encoding")
    # The values of a repeated header are separated by newlines.
    lines = [f"{name}: {headers[name].replace(chr(10), ', ')}\r\n" for name in names if name in headers]
    return f"POST / HTTP/1.1\r\n{''.join(lines)}\r\n".encode("latin-1")


def head(answer: Response | StreamResponse, date: str, length: int | None, *, close: bool) -> bytes:
    """The head of an answer; a length of None means that chunks follow."""
    status = _STATUS_LINES.get(answer.status) or f"HTTP/1.1 {answer.status} Unknown"
    body = f"content-length: {length}" if length is not None else "transfer-encoding: chunked"
    text = f"{status}\r\ndate: {date}\r\ncontent-type: {answer.content_type}\r\n{body}\r\n"
    for name, value in answer.headers:
        text += f"{name}: {value}\r\n"
    if close:
        text += "connection: close\r\n"
    return f"{text}\r\n".encode("latin-1")


def wants_websocket(headers: dict[str, str]) -> bool:
    return headers.get("upgrade", "").strip().lower() == "websocket" and not has_body(headers)


def upgrade_head(answer: UpgradeResponse, date: str) -> bytes:
    lines = [f"date: {date}", "upgrade: websocket", "connection: Upgrade"]
    lines += [f"{name}: {value}" for name, value in answer.headers]
    return "\r\n".join([_STATUS_LINES[answer.status], *lines, "", ""]).encode("latin-1")


def chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)
