"""Sends the names of the accepted client CAs in the TLS handshake.

A client with several certificates chooses by them. Python's ssl module checks certificates but cannot send
the names: OpenSSL has a function for it that the module does not offer. So it is called directly, in the very
library that the module uses; if that library cannot be reached, no names are sent.
"""

from __future__ import annotations

import _ssl
import ctypes
import ssl
import sys
from pathlib import Path

# Python versions whose `ssl.SSLContext` was examined: OpenSSL's own context is its first field.
PYTHONS = ((3, 11), (3, 14))


def tell_authority(context: ssl.SSLContext, ca_file: Path) -> bool:
    """Returns whether the names will be sent to clients."""
    library, pointer = _library(), _openssl_context(context)
    if library is None or pointer is None:
        return False
    # Both views show the same options: it is the context that we expect.
    if library.SSL_CTX_get_options(pointer) & 0xFFFFFFFF != context.options & 0xFFFFFFFF:
        return False
    names = library.SSL_load_client_CA_file(str(ca_file).encode())
    if not names:
        return False
    library.SSL_CTX_set_client_CA_list(pointer, names)  # OpenSSL owns the list from here on.
    return True


def _library() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(_ssl.__file__)
        library.SSL_load_client_CA_file.argtypes = [ctypes.c_char_p]
        library.SSL_load_client_CA_file.restype = ctypes.c_void_p
        library.SSL_CTX_set_client_CA_list.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        library.SSL_CTX_set_client_CA_list.restype = None
        library.SSL_CTX_get_options.argtypes = [ctypes.c_void_p]
        library.SSL_CTX_get_options.restype = ctypes.c_uint64
    except (OSError, AttributeError):  # Built into the interpreter, or an OpenSSL with hidden symbols.
        return None
    return library


def _openssl_context(context: ssl.SSLContext) -> int | None:
    if sys.implementation.name != "cpython" or not PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]:
        return None
    # After the header that every object begins with, however large that is in this build.
    pointer = ctypes.c_void_p.from_address(id(context) + object.__basicsize__).value
    return pointer if pointer is not None and _is_mapped(pointer) else None


def _is_mapped(pointer: int) -> bool:
    """Whether the memory may be read: a wrong guess must not crash the process."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return False
    for line in lines:
        low, _, high = line.split(" ", 1)[0].partition("-")
        if int(low, 16) <= pointer < int(high, 16):
            return line.split(" ", 2)[1].startswith("rw")
    return False
