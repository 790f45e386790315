"""Static bearer tokens, as a file of lines: token,user,uid,"group1,group2".

Only digests are kept and looked up: the duration of a lookup reveals nothing about how much of a guess was
right, and a memory dump holds no token.
"""

from __future__ import annotations

import csv
import hashlib

from fathom.model.user import AUTHENTICATED, User

Tokens = dict[bytes, User]  # sha256(token) -> its user.


class BadTokens(Exception):
    """One line for the operator: what is wrong with the token file, and where."""


def digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def parse_tokens(text: str, *, source: str = "tokens") -> Tokens:
    """Lines that are empty or begin with # are skipped. Raises BadTokens."""
    tokens: Tokens = {}
    rows = csv.reader(text.splitlines(), skipinitialspace=True, strict=True)
    try:
        for row in rows:
            if not row or row[0].startswith("#"):
                continue
            key, user = _entry(row, f"{source}, line {rows.line_num}")
            if key in tokens:
                raise BadTokens(f"{source}, line {rows.line_num}: the same token is on an earlier line")
            tokens[key] = user
    except csv.Error as error:
        raise BadTokens(f"{source}, line {rows.line_num}: {error}") from None
    return tokens


def _entry(row: list[str], where: str) -> tuple[bytes, User]:
    if len(row) < 3:
        raise BadTokens(f'{where}: expected token,user,uid or token,user,uid,"group1,group2"')
    token, name, uid = (column.strip() for column in row[:3])
    if not token or not name:
        raise BadTokens(f"{where}: the token and the user must not be empty")
    groups = [group.strip() for group in row[3].split(",")] if len(row) > 3 else []
    return digest(token), User(
        name=name, uid=uid, groups=(*(group for group in groups if group), AUTHENTICATED)
    )
