"""Draws a recorded demonstration as a moving picture, and writes its page: `script/pictures` calls it.

film.py record FILE COMMAND…     run the command; each line that it prints, with its second, into FILE
film.py draw FILE PICTURE PAGE   an SVG that plays by itself, and a page with all of the text
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from xml.sax.saxutils import escape

COLUMNS, ROWS = 112, 30
CHAR_PX, LINE_PX, EDGE_PX = 8, 19, 16
PAUSE_S_MAX = 2.0  # Longer waits are cut: nobody watches a rollout for a minute.
LINE_S_MIN = 0.06  # So that a long answer can be seen to come.
READ_S = 2.5  # After each command's output.
STYLE = (
    "text{font:13.3px ui-monospace,Menlo,Consolas,monospace}.typed{fill:#9ece6a}.told{fill:#7aa2f7}"
    ".said{fill:#c8d0e0}rect{fill:#1a1e29}"
)
PAGE = """# The demonstration, recorded

`fathom demo risk-api --yes`, as it ran when this page was made (`script/pictures`). The picture cuts waits
of more than two seconds; the whole text is below it, with the second at which each command was typed.

![the demonstration, playing](pictures/{picture})

Try it: `fathom demo risk-api` goes step by step and waits for a key, and leaves its cluster to play with.

```text
{text}
```
"""


class Line:
    def __init__(self, text: str, second: float) -> None:
        self.text, self.second = text, second

    @property
    def look(self) -> str:
        return "typed" if self.text.startswith("$ ") else "told" if self.text[:2] in {"# ", "=="} else "said"


def record(file: Path, command: list[str]) -> int:
    began = time.monotonic()
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1) as process,
        file.open("w") as out,
    ):
        assert process.stdout is not None
        for text in process.stdout:
            out.write(json.dumps([round(time.monotonic() - began, 2), text.rstrip("\n")]) + "\n")
    return process.returncode


def shown(lines: list[Line]) -> list[Line]:
    """Wrapped, and with the seconds of the film instead of those of the run."""
    rows, film_s, last = [], 0.0, Line("", 0.0)
    for line in lines:
        film_s += min(max(line.second - last.second, LINE_S_MIN), PAUSE_S_MAX)
        if line.text.startswith("# ") and rows:
            film_s += READ_S
        for part in textwrap.wrap(line.text, COLUMNS, drop_whitespace=False, break_on_hyphens=False) or [""]:
            row = Line(part, round(film_s, 2))
            rows.append(row)
        last = line
    return rows


def drawn(rows: list[Line]) -> str:
    """All rows below each other; each appears at its second, and the paper is moved up as a terminal does."""
    width, height = COLUMNS * CHAR_PX + 2 * EDGE_PX, ROWS * LINE_PX + 2 * EDGE_PX
    texts = [
        f'<text x="{EDGE_PX}" y="{EDGE_PX + (at + 0.75) * LINE_PX:g}" class="{row.look}" visibility="hidden" '
        f'xml:space="preserve">{escape(row.text)}<set attributeName="visibility" to="visible" '
        f'begin="{row.second:g}s"/></text>'
        for at, row in enumerate(rows)
        if row.text
    ]
    moves = [
        f'<animateTransform attributeName="transform" type="translate" to="0 {-(at - ROWS + 1) * LINE_PX}" '
        f'begin="{row.second:g}s" dur="0.01s" fill="freeze"/>'
        for at, row in enumerate(rows)
        if at >= ROWS
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
            f"<style>{STYLE}</style>",
            f'<rect width="{width}" height="{height}" rx="8"/>',
            *("<g>", *texts, *moves, "</g>"),
            "</svg>",
            "",
        ]
    )


def transcript(lines: list[Line]) -> str:
    return "\n".join(
        f"{line.text}   ({line.second:.0f} s)" if line.look == "typed" else line.text for line in lines
    ).strip()


def main() -> int:
    if sys.argv[1] == "record":
        return record(Path(sys.argv[2]), sys.argv[3:])
    recorded, picture, page = (Path(word) for word in sys.argv[2:5])
    lines = [Line(text, second) for second, text in map(json.loads, recorded.read_text().splitlines())]
    picture.write_text(drawn(shown(lines)))
    page.write_text(PAGE.format(picture=picture.name, text=transcript(lines)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
