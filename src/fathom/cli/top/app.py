"""The terminal: keys in, lines out. All that is shown comes from the pure views."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.suggester import SuggestFromList
from textual.widgets import Input

from fathom.cli.explanations import ApiServer
from fathom.cli.top.feed import Feed
from fathom.cli.top.helping import helping_command
from fathom.cli.top.lines import PageLine, Piece, Subject, cells, cut, line
from fathom.cli.top.now_lines import head_line, now_lines
from fathom.cli.top.now_view import now_view
from fathom.cli.top.page import LinesView, PageView
from fathom.cli.top.questions import Asker, ask_workload, breaker_asker, stuck_asker
from fathom.cli.top.seen import READING, ClusterSeen
from fathom.cli.top.workload_lines import WHY, workload_lines
from fathom.cli.top.workload_view import WorkloadAnswers, workload_view
from fathom.model.times import timestamp
from fathom.terminal import visible

DRAWS_PER_S = 4  # However fast the cluster changes.
TERMINATED = 143
FILTER, NAMESPACE = "filter", "namespace"
ALL = "all namespaces"
HELP = """KEYS
  ↑ ↓ j k         select
  PgUp PgDn       scroll; g, G: to the first, to the last
  Enter           open what is selected: its stages, pods, why, history
  Esc             back; ends a filter
  /               show only what contains a text
  n               show another namespace; an empty name: all
  c               copy the command that would help, and show it
  q, Ctrl-C       quit

SIGNS
  ✗ is stuck   ~ passes by itself   · was done on purpose
  nodes: the bar is the larger share of cpu and memory that pods request"""
KEYS_OF_NOW = "Enter open  / filter  n namespace  c command  ? help  q quit"
KEYS_OF_HELP = "Esc back  q quit"
KEYS_OF_WORKLOAD = "Esc back  Enter open pod  / filter  c command  ? help  q quit"


class TopApp(App[int]):
    """Two pages and their keys."""

    CSS = """
    Screen { layout: vertical; background: ansi_default; color: ansi_default; }
    #head { height: 2; }
    #head.lost { height: 3; }
    #foot { height: 1; }
    #line { height: 1; border: none; padding: 0; background: ansi_default; display: none; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "leave", show=False),
        Binding("ctrl+c", "leave", show=False, priority=True),
        Binding("ctrl+q", "leave", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False, priority=True),
        Binding("down,j", "move(1)", show=False),
        Binding("up,k", "move(-1)", show=False),
        Binding("pagedown,space,ctrl+f", "page(1)", show=False),
        Binding("pageup,ctrl+b", "page(-1)", show=False),
        Binding("g,home", "end(False)", show=False),
        Binding("G,end", "end(True)", show=False),
        Binding("enter", "open", show=False),
        Binding("escape", "return", show=False),
        Binding("slash", "ask('filter')", show=False),
        Binding("n", "ask('namespace')", show=False),
        Binding("c", "copy", show=False),
        Binding("question_mark", "help", show=False),
    ]

    def __init__(self, feed: Feed, opened: Subject | None = None) -> None:
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"  # The terminal's own colours, so it suits light ones as well.
        self.feed = feed
        self._pages: list[Subject] = [opened] if opened else []  # Above Now; the last is shown.
        self._answers: tuple[Subject, WorkloadAnswers] | None = None
        self._asker = Asker(feed, "workload", self._ask, version=self._asked_version)
        self._shows_help = False
        self._matching = ""
        self._message = ""
        self._drawn: object = None  # What the screen was drawn from.
        self._asking = ""  # FILTER, NAMESPACE; '' while no line is typed.
        self.failure: Exception | None = None

    def compose(self) -> ComposeResult:
        yield LinesView(id="head")
        yield PageView(id="page")
        yield Input(id="line", compact=True, select_on_focus=False)
        yield LinesView(id="foot")

    def on_mount(self) -> None:
        self.query_one(Input).can_focus = False
        self.set_focus(None)
        loop = asyncio.get_running_loop()
        ends: tuple[tuple[int, int], ...] = (
            (signal.SIGTERM, TERMINATED), (signal.SIGHUP, TERMINATED), (signal.SIGINT, 0)
        )  # fmt: skip
        for number, code in ends:
            loop.add_signal_handler(number, self.exit, code)
        self.feed.start()
        for asker in (stuck_asker(self.feed), breaker_asker(self.feed), self._asker):
            asker.start()
        self.set_interval(1 / DRAWS_PER_S, self.draw)
        self.draw()

    def on_resize(self) -> None:
        self._drawn = None
        self.call_after_refresh(self.draw)

    # Drawing.

    def draw(self) -> None:
        """Draw what has changed since; ages and countdowns change every second."""
        seen = self.feed.snapshot()
        state = (
            self.feed.version, self._answers, seen.now_ns // 10**9, tuple(self._pages), self._shows_help,
            self._matching, self._message, self._asking, self.size,
        )  # fmt: skip
        if state == self._drawn or not self.size.width:
            return
        self._drawn = state
        head = self._head(seen)
        self.query_one("#head", LinesView).show(head)
        self.query_one("#head").set_class(len(head) > 2, "lost")
        self.query_one("#page", PageView).show(self._lines(seen))
        self.query_one("#foot", LinesView).show([self._foot()])

    def _lines(self, seen: ClusterSeen) -> list[PageLine]:
        width = self.size.width
        if self._shows_help:
            return [line(text) for text in HELP.split("\n")]
        if not self._pages:
            return now_lines(now_view(seen), width, matching=self._matching)
        view = workload_view(self._pages[-1], seen, self._answers_for(self._pages[-1]))
        return workload_lines(view, width, matching=self._matching)

    def _answers_for(self, subject: Subject) -> WorkloadAnswers:
        if self._answers is not None and self._answers[0] == subject:
            return self._answers[1]
        return WorkloadAnswers(notes={WHY: READING})

    def _head(self, seen: ClusterSeen) -> list[PageLine]:
        width = self.size.width
        place = seen.namespace or ALL
        if self._pages:
            kind, namespace, name = self._pages[-1]
            place = f"{kind.partition('.')[0]} {namespace}/{name}".replace(" /", " ")
        clock = timestamp(seen.now_ns)[11:19]
        title = cut(visible(f"fathom top  {place}  {seen.server}"), width - len(clock) - 1)
        space = " " * (width - cells(title) - len(clock))
        head = [line(Piece(f"{title}{space}{clock}", "bold")), head_line(now_view(seen), width)]
        if seen.lost_since_ns:
            since = timestamp(seen.lost_since_ns)[11:19]
            text = f"connection lost since {since} UTC: {seen.lost_why}; shown is what was known then"
            head.append(line(Piece(cut(visible(text), width), "red")))
        return head

    def _foot(self) -> PageLine:
        width = self.size.width
        keys = KEYS_OF_HELP if self._shows_help else KEYS_OF_WORKLOAD if self._pages else KEYS_OF_NOW
        shown = f"only what contains {self._matching!r}  " if self._matching else ""
        text = self._message or f"{shown}{keys}"
        return line(Piece(cut(visible(text), width), "" if self._message else "dim"))

    # Asking about the open workload: in a thread.

    def _ask(self, server: ApiServer) -> None:
        subject = self._pages[-1] if self._pages else None
        if subject is not None:
            self._answers = (subject, ask_workload(server, subject))

    def _asked_version(self) -> object:
        subject = self._pages[-1] if self._pages else None
        return subject, self.feed.changes(subject.namespace) if subject else 0

    # Keys.

    def action_leave(self) -> None:
        self.exit(0)

    def action_move(self, step: int) -> None:
        self._page.move(step)

    def action_page(self, step: int) -> None:
        self._page.scroll_page(step)

    def action_end(self, last: bool) -> None:
        self._page.go_to_end(last=last)

    def action_open(self) -> None:
        chosen = self._page.selected_line
        if not self._shows_help and chosen is not None and chosen.subject is not None:
            self._go(lambda: self._pages.append(chosen.subject))  # type: ignore[arg-type]  # Not None: above.
            self._asker.wake()

    def action_return(self) -> None:
        if self._asking:
            self._end_line()
        elif self._shows_help:
            self._go(lambda: setattr(self, "_shows_help", False))
        elif self._matching:
            self._go(lambda: setattr(self, "_matching", ""))
        elif self._pages:
            self._go(self._pages.pop)
            self._asker.wake()

    def action_help(self) -> None:
        self._go(lambda: setattr(self, "_shows_help", not self._shows_help))

    def action_copy(self) -> None:
        """The command is shown, too: not every terminal lets programs copy."""
        chosen = self._page.selected_line
        command = chosen.command if chosen is not None else ""
        if not command and self._pages and self._answers is not None:
            command = helping_command(self._answers[1].explanation)
        if not command:
            self._say("no command is proposed for this: open it with Enter")
        elif visible(command) != command:  # Pasted, a hidden line end would run it.
            self._say(f"not copied, it has control characters: {command}")
        else:
            self.copy_to_clipboard(command)
            self._say(f"copied: {command}")

    def _go(self, change: Callable[[], Any]) -> None:
        """To another page, which begins at its top."""
        change()
        self._message = ""
        self._page.restart()
        self.draw()

    def _say(self, text: str) -> None:
        self._message = text
        self.draw()

    @property
    def _page(self) -> PageView:
        return self.query_one("#page", PageView)

    # A line that is typed: a filter, or a namespace.

    def action_ask(self, asking: str) -> None:
        if self._asking or (asking == NAMESPACE and self._pages):
            return
        entry = self.query_one(Input)
        self._asking, self._message = asking, ""
        entry.placeholder = "text to look for" if asking == FILTER else "namespace; empty: all"
        names = sorted({key.namespace for key in self.feed.snapshot().pods}) if asking == NAMESPACE else []
        entry.suggester = SuggestFromList(names) if names else None
        entry.value = self._matching if asking == FILTER else ""
        entry.can_focus, entry.display = True, True
        self.query_one("#foot").display = False
        entry.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        if self._asking == FILTER:
            self._matching = event.value
            self.draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        asked = self._asking
        self._end_line()
        if asked == NAMESPACE:
            self._go(lambda: self.feed.switch(event.value.strip()))

    def _end_line(self) -> None:
        entry = self.query_one(Input)
        if self._asking == FILTER and not entry.value:
            self._matching = ""
        self._asking = ""
        entry.display, entry.can_focus = False, False
        self.query_one("#foot").display = True
        self.set_focus(None)
        self.draw()

    # Errors.

    def _handle_exception(self, error: Exception) -> None:
        """Textual would print a traceback: `fathom` has one line for every error, and its own --debug."""
        if self.failure is None:
            self.failure = error
        self._return_code = 1
        self._close_messages_no_wait()


def run_app(feed: Feed, opened: Subject | None) -> int:
    app = TopApp(feed, opened)
    code = app.run(mouse=False)  # The terminal's own selection stays usable.
    if app.failure is not None:
        raise app.failure
    return code or 0
