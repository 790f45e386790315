"""The terminal: keys in, lines out. All that is shown comes from the pure views."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Key

from fathom.cli.api_server import NoAnswerNow
from fathom.cli.ask.explanations import ApiServer
from fathom.cli.ask.top.feed import Feed
from fathom.cli.ask.top.helping import helping_command
from fathom.cli.ask.top.lines import PageLine, Piece, Subject, cells, cut, line
from fathom.cli.ask.top.now_lines import head_line, now_lines
from fathom.cli.ask.top.now_view import NowView, now_view
from fathom.cli.ask.top.page import LinesView, PageView
from fathom.cli.ask.top.questions import Asker, ask_workload, breaker_asker, stuck_asker
from fathom.cli.ask.top.seen import READING, ClusterSeen
from fathom.cli.ask.top.workload_lines import WHY, workload_lines
from fathom.cli.ask.top.workload_view import WorkloadAnswers, workload_view
from fathom.model.times import timestamp
from fathom.terminal import visible

DRAWS_PER_S = 4  # However fast the cluster changes.
TERMINATED = 143
HUNG_UP = 129
TERMINAL_CHECK_S = 2.0
FILTER, NAMESPACE = "filter", "namespace"
ALL = "all namespaces"
TYPED_MAX = 253  # Characters: no name is longer.
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
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c,ctrl+q", "leave", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False, priority=True),
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
        self._typed = ""
        self.failure: Exception | None = None

    def compose(self) -> ComposeResult:
        yield LinesView(id="head")
        yield PageView(id="page")
        yield LinesView(id="foot")

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.exit, TERMINATED)
        loop.add_signal_handler(signal.SIGINT, self.exit, 0)
        loop.add_signal_handler(signal.SIGHUP, os._exit, HUNG_UP)
        self.set_interval(TERMINAL_CHECK_S, _end_without_terminal)
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
            self._matching, self._message, self._asking, self._typed, self.size,
        )  # fmt: skip
        if state == self._drawn or not self.size.width:
            return
        self._drawn = state
        now = now_view(seen)
        head = self._head(seen, now)
        self.query_one("#head", LinesView).show(head)
        self.query_one("#head").set_class(len(head) > 2, "lost")
        self.query_one("#page", PageView).show(self._lines(seen, now))
        self.query_one("#foot", LinesView).show([self._foot()])

    def _lines(self, seen: ClusterSeen, now: NowView) -> list[PageLine]:
        width = self.size.width
        if self._shows_help:
            return [line(text) for text in HELP.split("\n")]
        if not self._pages:
            return now_lines(now, width, matching=self._matching)
        view = workload_view(self._pages[-1], seen, self._answers_for(self._pages[-1]))
        return workload_lines(view, width, matching=self._matching)

    def _answers_for(self, subject: Subject) -> WorkloadAnswers:
        if self._answers is not None and self._answers[0] == subject:
            return self._answers[1]
        return WorkloadAnswers(notes={WHY: READING})

    def _head(self, seen: ClusterSeen, now: NowView) -> list[PageLine]:
        width = self.size.width
        place = seen.namespace or ALL
        if self._pages:
            kind, namespace, name = self._pages[-1]
            place = f"{kind.partition('.')[0]} {namespace}/{name}".replace(" /", " ")
        clock = timestamp(seen.now_ns)[11:19]
        title = cut(visible(f"fathom top  {place}  {seen.server}"), width - len(clock) - 1)
        space = " " * (width - cells(title) - len(clock))
        head = [line(Piece(f"{title}{space}{clock}", "bold")), head_line(now, width)]
        if seen.lost_since_ns:
            since = timestamp(seen.lost_since_ns)[11:19]
            text = f"connection lost since {since} UTC: {seen.lost_why}; shown is what was known then"
            head.append(line(Piece(cut(visible(text), width), "red")))
        return head

    def _foot(self) -> PageLine:
        width = self.size.width
        keys = KEYS_OF_HELP if self._shows_help else KEYS_OF_WORKLOAD if self._pages else KEYS_OF_NOW
        if self._asking:
            prompt = "only what contains: " if self._asking == FILTER else "namespace (empty: all): "
            return line(Piece(prompt, "bold"), cut(visible(self._typed), width - len(prompt) - 1), "▏")
        shown = f"only what contains {self._matching!r}  " if self._matching else ""
        text = self._message or f"{shown}{keys}"
        return line(Piece(cut(visible(text), width), "" if self._message else "dim"))

    # Asking about the open workload: in a thread.

    def _ask(self, server: ApiServer) -> None:
        subject = self._pages[-1] if self._pages else None
        if subject is None:
            return
        try:
            self._answers = (subject, ask_workload(server, subject))
        except NoAnswerNow as error:
            known = msgspec.structs.replace(
                self._answers_for(subject), notes={WHY: f"not up to date: {error}"}
            )
            self._answers = (subject, known)
            raise

    def _asked_version(self) -> object:
        subject = self._pages[-1] if self._pages else None
        return subject, self.feed.changes(subject.namespace) if subject else 0

    # Keys. They are taken one by one, in order: those of a line that is typed fast must not act as commands.

    def on_key(self, event: Key) -> None:
        event.stop()
        if self._asking:
            self._edit(event.key, event.character if event.is_printable else None)
        elif (act := self._actions().get(event.key)) is not None:
            act()

    def _actions(self) -> Mapping[str, Callable[[], None]]:
        page = self._page
        by_name: dict[str, Callable[[], None]] = {
            "q": self.action_leave,
            "down j": lambda: page.move(1),
            "up k": lambda: page.move(-1),
            "pagedown space": lambda: page.scroll_page(1),
            "pageup": lambda: page.scroll_page(-1),
            "home g": lambda: page.go_to_end(last=False),
            "end G": lambda: page.go_to_end(last=True),
            "enter": self._open,
            "escape": self._back,
            "slash": lambda: self._begin_line(FILTER),
            "n": lambda: self._begin_line(NAMESPACE),
            "c": self._copy,
            "question_mark": lambda: self._go(lambda: setattr(self, "_shows_help", not self._shows_help)),
        }
        return {key: act for keys, act in by_name.items() for key in keys.split()}

    def action_leave(self) -> None:
        self.exit(0)

    def _open(self) -> None:
        chosen = self._page.selected_line
        subject = chosen.subject if chosen is not None and not self._shows_help else None
        if subject is not None:
            self._go(lambda: self._pages.append(subject))
            self._asker.wake()

    def _back(self) -> None:
        if self._shows_help:
            self._go(lambda: setattr(self, "_shows_help", False))
        elif self._matching:
            self._go(lambda: setattr(self, "_matching", ""))
        elif self._pages:
            self._go(self._pages.pop)
            self._asker.wake()

    def _copy(self) -> None:
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

    def _begin_line(self, asking: str) -> None:
        if asking == FILTER or not self._pages:
            self._asking, self._message = asking, ""
            self._typed = self._matching if asking == FILTER else ""
            self.draw()

    def _edit(self, key: str, character: str | None) -> None:
        if key == "enter":
            asked, self._asking = self._asking, ""
            if asked == NAMESPACE:
                self._go(lambda: self.feed.switch(self._typed.strip()))
        elif key == "escape":
            self._asking, self._typed = "", ""
        elif key in {"backspace", "ctrl+h"}:
            self._typed = self._typed[:-1]
        elif key == "ctrl+u":
            self._typed = ""
        elif key == "tab" and self._asking == NAMESPACE:
            self._typed = self._completed(self._typed)
        elif character is not None and len(self._typed) < TYPED_MAX:
            self._typed += character
        if self._asking == FILTER or (key == "escape" and self._matching):
            self._matching = self._typed
        self.draw()

    def _completed(self, typed: str) -> str:
        """The first namespace that begins so, of those that have pods."""
        names = sorted({key.namespace for key in self.feed.snapshot().pods})
        return next((name for name in names if name.startswith(typed)), typed)

    # Errors.

    def _handle_exception(self, error: Exception) -> None:
        """Textual would print a traceback: `fathom` has one line for every error, and its own --debug."""
        if self.failure is None:
            self.failure = error
        self._return_code = 1
        self._close_messages_no_wait()


def _end_without_terminal() -> None:
    """A closed terminal sends SIGHUP only to the session that it controls. There is nothing left to restore,
    and Textual would go on writing to nobody, at half a core."""
    if not os.isatty(0):
        os._exit(HUNG_UP)


def run_app(feed: Feed, opened: Subject | None) -> int:
    app = TopApp(feed, opened)
    code = app.run(mouse=False)  # The terminal's own selection stays usable.
    if app.failure is not None:
        raise app.failure
    return code or 0
