"""Opens an address in a browser, where there is one."""

from __future__ import annotations

import os
import sys

NO_BROWSER = "no browser with windows was found: open the {} above yourself"


def opened(address: str) -> bool:
    """Open it in a browser with windows, if there is one: one in the terminal runs no scripts."""
    import webbrowser  # noqa: PLC0415  # Rarely asked for.

    has_windows = sys.platform == "darwin" or {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys()
    return bool(has_windows) and webbrowser.open(address)
