"""A widget that draws lines, scrolls, and has a selected object. It decides nothing and parses no markup."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from fathom.cli.ask.top.lines import PageLine, Subject

# Colours by their names: the terminal's own palette, which suits its background, dark or light.
STYLES = {
    "": Style(),
    "bold": Style(bold=True),
    "dim": Style(dim=True),
    "red": Style(color="red"),
    "yellow": Style(color="yellow"),
    "green": Style(color="green"),
    "cyan": Style(color="cyan"),
}
SELECTED = Style(reverse=True)


class LinesView(Widget):
    """Lines as they are, cut at the right edge."""

    DEFAULT_CSS = "LinesView { height: 1fr; width: 1fr; }"

    def __init__(self, *, id: str) -> None:  # noqa: A002  # Textual's word.
        super().__init__(id=id, markup=False)
        self.lines: Sequence[PageLine] = ()
        self.first = 0  # The line at the top.

    def show(self, lines: Sequence[PageLine]) -> None:
        if lines != self.lines:
            self.lines = lines
            self.refresh()

    def render_line(self, y: int) -> Strip:
        at = self.first + y
        strip = Strip(self.segments(at) if at < len(self.lines) else [])
        return strip.adjust_cell_length(self.size.width).crop(0, self.size.width)

    def segments(self, at: int) -> list[Segment]:
        return [Segment(piece.text, STYLES[piece.style]) for piece in self.lines[at].pieces]


class PageView(LinesView):
    """Lines of which some belong to objects that can be selected."""

    def __init__(self, *, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self.selected = -1  # The first line of what is selected; -1: nothing can be.
        self._chosen = False  # By the user. Until then the first is selected: the worst.

    def show(self, lines: Sequence[PageLine]) -> None:
        """The selection stays on its object, wherever it has moved."""
        if lines == self.lines:
            return
        before = self._about(self.selected) if self._chosen else None
        starts = _starts(lines)
        same = next((at for at in starts if _about(lines[at]) == before), None) if before else None
        wanted = self.selected if self._chosen else 0
        near = next((at for at in starts if at >= wanted), starts[-1] if starts else -1)
        self.selected = near if same is None else same
        self.lines = lines
        self._keep_in_view()
        self.refresh()

    def restart(self) -> None:
        """Another page begins at its top."""
        self.lines, self.first, self.selected, self._chosen = (), 0, -1, False

    @property
    def selected_line(self) -> PageLine | None:
        return self.lines[self.selected] if 0 <= self.selected < len(self.lines) else None

    def segments(self, at: int) -> list[Segment]:
        segments = super().segments(at)
        if at not in self._selected_lines():
            return segments
        return [Segment(text, (style or Style()) + SELECTED) for text, style, _ in segments]

    # Moving.

    def move(self, step: int) -> None:
        """Select the next object, or scroll towards it while it is out of sight."""
        starts, self._chosen = _starts(self.lines), True
        ahead = [at for at in starts if (at > self.selected if step > 0 else at < self.selected)]
        following = None if not ahead else min(ahead) if step > 0 else max(ahead)
        if following is not None and self.first - 1 <= following <= self._last + 1:
            self.selected = following
            self._keep_in_view()
        else:
            self.scroll_by(step)
        self.refresh()

    def scroll_by(self, lines: int) -> None:
        self.first = max(0, min(self.first + lines, len(self.lines) - self.size.height))
        self.refresh()

    def scroll_page(self, pages: int) -> None:
        """A page further; the selection follows into sight."""
        self._chosen = True
        self.scroll_by(pages * max(1, self.size.height - 1))
        inside = [at for at in _starts(self.lines) if self.first <= at <= self._last]
        if inside and self.selected not in inside:
            self.selected = inside[0] if pages > 0 else inside[-1]

    def go_to_end(self, *, last: bool) -> None:
        starts, self._chosen = _starts(self.lines), True
        if starts:
            self.selected = starts[-1] if last else starts[0]
        self.scroll_by(len(self.lines) if last else -len(self.lines))

    @property
    def _last(self) -> int:
        return self.first + max(1, self.size.height) - 1

    def _keep_in_view(self) -> None:
        height = max(1, self.size.height)
        first = max(0, min(self.first, len(self.lines) - height))
        block = self._selected_lines()
        # A page whose selection was in sight keeps it there; what was scrolled away stays away.
        if block and self.first - 2 <= block.start <= self.first + height + 1:
            first = min(max(first, block.stop - height), block.start)
            first = (
                0
                if not any(at < block.start for at in _starts(self.lines)) and block.stop <= height
                else first
            )
        self.first = first

    def _selected_lines(self) -> range:
        chosen = self.selected_line
        if chosen is None:
            return range(0)
        end = self.selected + 1
        while (
            end < len(self.lines) and not self.lines[end].starts and _about(self.lines[end]) == _about(chosen)
        ):
            end += 1
        return range(self.selected, end)

    def _about(self, at: int) -> tuple[Subject | None, str] | None:
        return _about(self.lines[at]) if 0 <= at < len(self.lines) else None


def _about(line: PageLine) -> tuple[Subject | None, str]:
    return line.subject, "" if line.subject else line.command


def _starts(lines: Sequence[PageLine]) -> list[int]:
    return [at for at, line in enumerate(lines) if line.starts]
