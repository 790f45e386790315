"""Page 1 as lines of a width. The order is the order of looking: stuck first. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fathom.cli.ask.top import seen as what
from fathom.cli.ask.top.lines import (
    PageLine,
    Piece,
    PieceStyle,
    Subject,
    beside,
    cells,
    cut,
    line,
    padded,
    paragraph,
    table,
)
from fathom.cli.ask.top.now_view import (
    BrakeState,
    NodeItem,
    NowView,
    OverrideItem,
    StuckItem,
    WorkloadItem,
    ZoneItem,
)
from fathom.cli.ask.why import singular
from fathom.terminal import visible

TWO_COLUMNS = 140  # From this width on.
WIDE = 10_000  # A pipe: nothing is wrapped.
SENTENCE_LINES_MAX = 4  # The workload's page has it whole.
STUCK_SHOWN_MAX = 50  # The worst ones. More would hide the rest of the page, and one cause often has many.
CELLS_SHOWN_MAX = 24  # Nodes of a zone with their names; of more, one character each.
BAR = 6
LEVELS = "▁▂▃▄▅▆▇█"
CLOSED = "closed"


def now_lines(view: NowView, width: int, *, matching: str = "") -> list[PageLine]:
    left = [*_stuck(view, width, matching)]
    if width < TWO_COLUMNS or width >= WIDE:
        return [*left, *_surroundings(view, width), *_workloads(view, width, matching)]
    half = width * 11 // 20
    left = [*_stuck(view, half - 3, matching), *_workloads(view, half - 3, matching)]
    return beside(left, _surroundings(view, width - half, first=True), width=half)


def head_line(view: NowView, width: int) -> PageLine:
    """One line that says whether anything is wrong, for terminals that show little else."""
    nodes = [node for zone in view.zones for node in zone.nodes]
    ready = sum(_is_ready(node) for node in nodes)
    parts = [
        Piece(f"{len(view.stuck)} stuck", "red" if view.stuck else "green"),
        Piece(_counted(len(view.overrides), "override"), "yellow"),
        Piece(_counted(len(view.fights), "fight"), "red"),
        Piece(f"nodes {ready}/{len(nodes)}", "" if ready == len(nodes) else "red"),
        Piece(*_leaders_word(view)),
        Piece(*_brake_word(view.brake)),
        Piece(*_breakers_word(view)),
    ]
    shown: list[Piece] = []
    for part in parts:
        if part.text and sum(cells(each.text) for each in shown) + cells(part.text) + 2 <= width:
            shown += [*([Piece("  ")] if shown else []), part]
    return line(*shown)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}" if count else ""


def _leaders_word(view: NowView) -> tuple[str, PieceStyle]:
    if not view.leaders:
        return "", ""
    led = sum(each.state == "leads" for each in view.leaders)
    return f"leaders {led}/{len(view.leaders)}", "" if led == len(view.leaders) else "red"


def _brake_word(brake: BrakeState | None) -> tuple[str, PieceStyle]:
    if brake is None:
        return "", ""
    if brake.engaged:
        return "brake ENGAGED", "red"
    return ("brake holds", "yellow") if brake.holds else ("brake free", "")


def _breakers_word(view: NowView) -> tuple[str, PieceStyle]:
    if not view.breakers:
        return "", ""
    shut = sum(each.state != CLOSED for each in view.breakers)
    return (f"{shut} breakers OPEN", "red") if shut else ("breakers closed", "")


# What is stuck.


def _stuck(view: NowView, width: int, matching: str) -> Iterator[PageLine]:
    items = [item for item in view.stuck if _matches(matching, item.sentence, item.namespace, item.name)]
    yield _title("stuck", len(items), "red" if items else "")
    note = view.notes.get(what.STUCK)
    if note:
        yield from _hanging(f"  {note}", width, "yellow")
    elif not items:
        hidden = f" that matches {matching}" if matching else ""
        yield line(Piece(f"  nothing is stuck{hidden}", "green"))
    shown = items if width >= WIDE else items[:STUCK_SHOWN_MAX]
    for item in shown:
        yield from _stuck_lines(item, width)
    if len(shown) < len(items):
        more = f"  and {len(items) - len(shown)} more: / shows those that contain a text"
        yield from _hanging(more, width, "red")


def _stuck_lines(item: StuckItem, width: int) -> Iterator[PageLine]:
    subject = Subject(singular(item.resource.partition(".")[0]), item.namespace, item.name)
    style: PieceStyle = "dim" if item.severity == "intended" else "yellow" if item.severity else "red"
    mark = {"intended": "·", "passing": "~"}.get(item.severity, "✗")
    lines_max = 0 if width >= WIDE else SENTENCE_LINES_MAX
    for number, text in enumerate(paragraph(item.sentence, width - 4, lines_max=lines_max)):
        head = Piece(f"  {mark} ", style) if number == 0 else Piece("    ")
        yield line(head, text, subject=subject, command=item.command, starts=number == 0)
    if item.command and visible(item.command) not in visible(item.sentence):
        command = cut(f"    $ {visible(item.command)}", width)
        yield line(Piece(command, "cyan"), subject=subject, command=item.command)


# Around it.


def _surroundings(view: NowView, width: int, *, first: bool = False) -> list[PageLine]:
    parts = [
        [_title("nodes", sum(len(zone.nodes) for zone in view.zones)), *_nodes(view, width)],
        [_title("control plane"), *_control_plane(view, width)],
        [
            _title("overrides", len(view.overrides), "yellow" if view.overrides else ""),
            *_overrides(view, width),
        ],
        [_title("fights", len(view.fights), "red" if view.fights else ""), *_fights(view, width)],
    ]
    lines = [each for part in parts for each in (PageLine(), *part)]
    return lines[1:] if first else lines


def _title(name: str, count: int | None = None, style: PieceStyle = "") -> PageLine:
    number = "" if count is None else f" {count}"
    return line(Piece(name.upper(), "bold"), Piece(number, style or "bold"))


def _notes(view: NowView, width: int, *kinds: str) -> Iterator[PageLine]:
    for kind in kinds:
        if kind in view.notes:
            yield from _hanging(f"  {view.notes[kind]}", width, "yellow")


def _nodes(view: NowView, width: int) -> Iterator[PageLine]:
    yield from _notes(view, width, what.NODES)
    unknown = view.notes.get(what.PODS) or view.notes.get(what.ALL_PODS)
    if view.zones and unknown:
        yield from _hanging(f"  load is not known: {unknown}", width, "yellow")
    if not view.zones and what.NODES not in view.notes:
        yield line("  there are no nodes")
    for zone in view.zones:
        yield from _zone(zone, width)


def _zone(zone: ZoneItem, width: int) -> Iterator[PageLine]:
    ready = sum(map(_is_ready, zone.nodes))
    head = f"  {zone.name or 'without a zone'}: {ready} of {len(zone.nodes)} ready"
    yield line(Piece(head, "" if ready == len(zone.nodes) else "red"))
    many = len(zone.nodes) > CELLS_SHOWN_MAX
    yield from _map(zone.nodes, width) if many else _node_cells(zone.nodes, width)
    for node in zone.nodes:
        if node.held:
            yield from _hanging(f"    {node.name} is held: {node.held}", width, "yellow")


def _map(nodes: Sequence[NodeItem], width: int) -> Iterator[PageLine]:
    """One character a node: its load; '!' is not ready, '-' takes no pods, '?' is not known."""
    pieces = [Piece(_level(node), _node_style(node)) for node in nodes]
    per_line = max(1, min(width, 100) - 4)
    for start in range(0, len(pieces), per_line):
        yield line("    ", *pieces[start : start + per_line])
    unwell = [node for node in nodes if not _is_ready(node)]
    if unwell:
        listed = ", ".join(f"{node.name} ({node.state})" for node in unwell)
        yield from _hanging(f"    {listed}", width, "red", lines_max=4)


def _level(node: NodeItem) -> str:
    if not _is_ready(node):
        return "!"
    if "," in node.state:
        return "-"
    load = node.load_percent
    return "?" if load is None else LEVELS[min(len(LEVELS) - 1, load * len(LEVELS) // 100)]


def _node_cells(nodes: Sequence[NodeItem], width: int) -> Iterator[PageLine]:
    texts = [(visible(node.name), _bar(node), _words(node)) for node in nodes]
    name_width = max(cells(name) for name, _, _ in texts)
    words_width = max(cells(words) for _, _, words in texts)
    cell = name_width + BAR + words_width + 5
    per_line = 1 if width >= WIDE else max(1, (width - 4 + 2) // (cell + 2))
    for start in range(0, len(nodes), per_line):
        pieces = [Piece("    ")]
        for node, (name, bar, words) in zip(
            nodes[start : start + per_line], texts[start : start + per_line], strict=True
        ):
            style = _node_style(node)
            pieces += [
                Piece(padded(name, name_width + 1), style),
                Piece(f"{bar} ", style),
                Piece(padded(words, words_width + 3)),
            ]
        yield line(*pieces)


def _bar(node: NodeItem) -> str:
    full = min(BAR, -(-(node.load_percent or 0) * BAR // 100))
    return "█" * full + "░" * (BAR - full)


def _words(node: NodeItem) -> str:
    """'cpu 45% mem 30% 3 pods NotReady'"""
    cpu = "" if node.cpu_percent is None else f"cpu {node.cpu_percent:>2}%"
    memory = "" if node.memory_percent is None else f"mem {node.memory_percent:>2}%"
    pods = "" if node.pods is None else f"{node.pods} pod{'' if node.pods == 1 else 's'}"
    state = "" if node.state == "Ready" else node.state
    return " ".join(part for part in (cpu, memory, pods, state) if part)


def _is_ready(node: NodeItem) -> bool:
    return node.state.partition(",")[0] == "Ready"


def _node_style(node: NodeItem) -> PieceStyle:
    if not _is_ready(node):
        return "red"
    return "yellow" if "," in node.state or node.held else "green"


# The control plane.


def _control_plane(view: NowView, width: int) -> Iterator[PageLine]:
    yield from _notes(view, width, what.LEASES)
    for leader in view.leaders:
        style: PieceStyle = "" if leader.state == "leads" else "red"
        epoch = f" (epoch {leader.epoch})" if leader.epoch else ""
        holder = f"{leader.holder} {leader.state}" if leader.holder else leader.state
        yield from _hanging(f"  leader of {leader.lease}: {holder}{epoch}", width, style)
    yield from _notes(view, width, what.BRAKE)
    yield from _brake(view, width)
    yield from _breakers(view, width)
    for signal in view.signals:
        yield from _hanging(
            f"  {signal.component} reports {signal.signal}: {signal.message}", width, "yellow"
        )


def _brake(view: NowView, width: int) -> Iterator[PageLine]:
    brake = view.brake
    if brake is None:
        if what.BRAKE not in view.notes:
            yield from _hanging("  brake: no data: the controllers have not shown it yet", width, "")
        return
    if brake.engaged:
        yield from _hanging("  brake: ENGAGED by hand: no reaction to silent nodes", width, "red")
    elif not brake.holds:
        yield line("  brake: holds nothing back")
    if brake.holds:
        for text in (*brake.zones, *brake.nodes):
            yield from _hanging(f"  brake: {text}", width, "yellow")
    if brake.wrong:
        yield from _hanging(f"  brake: wrong limits: {brake.wrong}", width, "red")


def _breakers(view: NowView, width: int) -> Iterator[PageLine]:
    yield from _notes(view, width, what.BREAKERS)
    shut = [each for each in view.breakers if each.state != CLOSED]
    for each in shut:
        yield from _hanging(f"  breaker of {each.component} in {each.process}: {each.state}", width, "red")
    closed = [each.component for each in view.breakers if each.state == CLOSED]
    if closed:
        yield from _hanging(f"  breakers closed: {', '.join(closed)}", width, "")


# Overrides and fights.


def _overrides(view: NowView, width: int) -> Iterator[PageLine]:
    yield from _notes(view, width, what.OVERRIDES)
    if not view.overrides and what.OVERRIDES not in view.notes:
        yield line("  none")
    for item in view.overrides:
        yield from _override_lines(item, width)


def _override_lines(item: OverrideItem, width: int) -> Iterator[PageLine]:
    ends = f"ends in {item.ends_in}, " if item.ends_in not in {"-", "ended"} else ""
    owner = item.owner or "somebody unknown"
    head = f"  {item.namespace}/{item.name}: {item.changes} for {item.target}, by {owner}"
    yield from _hanging(head, width, "yellow")
    acks = "" if item.acknowledged == "-" else f", acknowledged {item.acknowledged}"
    waits = f", waits for {', '.join(item.waits_for)}" if item.waits_for else ""
    declined = f", declined by {', '.join(item.declined)}" if item.declined else ""
    yield from _hanging(f"    {ends}{item.state}{acks}{waits}{declined}", width, "red" if declined else "")


def _fights(view: NowView, width: int) -> Iterator[PageLine]:
    yield from _notes(view, width, what.SIGNALS)
    if not view.fights and what.SIGNALS not in view.notes:
        yield line("  none")
    for fight in view.fights:
        place = f"{fight.namespace}/" if fight.namespace else ""
        kind = fight.resource.partition(".")[0]
        yield from _hanging(f"  {kind} {place}{fight.name}: {fight.text}", width, "red")


# Workloads.


def _workloads(view: NowView, width: int, matching: str) -> Iterator[PageLine]:
    items = [item for item in view.workloads if _matches(matching, item.kind, item.namespace, item.name)]
    yield PageLine()
    yield _title("workloads", len(items))
    yield from _notes(view, width, what.PROGRESS)
    if not items and what.PROGRESS not in view.notes:
        yield line("  none")
    rows = [_workload_row(item, with_namespace=not view.namespace) for item in items]
    for item, text in zip(items, table(rows, width - 2), strict=True):
        style: PieceStyle = "red" if item.stuck_at else "yellow" if item.ready < item.desired else ""
        subject = Subject(item.kind.lower(), item.namespace, item.name)
        yield line(Piece(f"  {text}", style), subject=subject, starts=True)


def _workload_row(item: WorkloadItem, *, with_namespace: bool) -> tuple[str, ...]:
    return (
        *((item.namespace,) if with_namespace else ()),
        f"{item.kind.lower()}/{item.name}",
        f"{item.ready}/{item.desired} ready",
        f"{item.serving} serving",
        f"stuck at {item.stuck_at}" if item.stuck_at else item.pending,
    )


def _matches(matching: str, *fields: str) -> bool:
    return any(matching.casefold() in field.casefold() for field in fields)


def _hanging(text: str, width: int, style: PieceStyle, *, lines_max: int = 0) -> Iterable[PageLine]:
    indent = len(text) - len(text.lstrip())
    room = WIDE if width >= WIDE else width - indent
    shown = paragraph(text.lstrip(), room, indent=2, lines_max=lines_max)
    return [line(Piece(" " * indent + part, style)) for part in shown]
