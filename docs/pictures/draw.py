"""Draws commands of a demonstration and what they printed, as SVG: `script/pictures` calls it."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from xml.sax.saxutils import escape

COLUMNS, LINES_MAX = 112, 26
CHAR_PX, LINE_PX, EDGE_PX = 8, 19, 16
WHY_PENDING = "$ fathom why $(fathom get pods --field-selector status.phase=Pending -o name)"
# File name -> how the command begins, and the first line of its output that is shown ('': all is).
PICTURES = {
    "why": (WHY_PENDING, ""),
    "coupling": ("$ fathom coupling ", ""),
    "what-if": (f"{WHY_PENDING} --what-if ", ""),
    "timeline": ("$ fathom timeline ", ""),
    "preview": ("$ fathom runbook plan ", "The override default/"),
    "replay": ("$ fathom replay ", ""),
}


def lines_of(transcript: str, name: str) -> list[str]:
    """The command of a picture and its output."""
    command, begins = PICTURES[name]
    typed, *printed = section(transcript, command)
    first = next(at for at, line in enumerate(printed) if line.startswith(begins))
    return wrapped([typed, *(["…"] if first else []), *printed[first:]])


def section(transcript: str, start: str) -> list[str]:
    """The lines from this one to the next step."""
    lines = transcript.splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith(start))
    last = next(
        (at for at, line in enumerate(lines) if at > first and line.startswith(("# ", "== "))), len(lines)
    )
    return lines[first:last]


def wrapped(lines: list[str]) -> list[str]:
    """Within the columns, long ones continued below; not more than fit into a picture."""
    shown = [
        part
        for line in lines
        for part in textwrap.wrap(
            line, COLUMNS, subsequent_indent="      ", drop_whitespace=False, break_on_hyphens=False
        )
        or [""]
    ]
    while shown and not shown[-1]:
        shown.pop()
    return shown if len(shown) <= LINES_MAX else [*shown[:LINES_MAX], "…"]


def drawn(lines: list[str]) -> str:
    width, height = COLUMNS * CHAR_PX + 2 * EDGE_PX, len(lines) * LINE_PX + 2 * EDGE_PX
    rows = [
        f'<text x="{EDGE_PX}" y="{EDGE_PX + (at + 0.75) * LINE_PX:g}" '
        f'class="{"typed" if line.startswith("$ ") else "said"}" xml:space="preserve">{escape(line)}</text>'
        for at, line in enumerate(lines)
    ]
    style = (
        "text{font:13.3px ui-monospace,Menlo,Consolas,monospace}.typed{fill:#9ece6a}.said{fill:#c8d0e0}"
        "rect{fill:#1a1e29}"
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img">'
    body = [head, f"<style>{style}</style>", f'<rect width="{width}" height="{height}" rx="8"/>', *rows]
    return "\n".join([*body, "</svg>", ""])


def main() -> None:
    transcript, folder = Path(sys.argv[1]).read_text(), Path(sys.argv[2])
    for name in PICTURES:
        (folder / f"{name}.svg").write_text(drawn(lines_of(transcript, name)))


if __name__ == "__main__":
    main()
