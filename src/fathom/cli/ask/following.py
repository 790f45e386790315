"""A timeline that grows: which entries of an answer are new, each shown once and in order.

Records of several processes reach the API server at different times. So an entry is shown a moment after it
happened, when earlier ones have arrived too, and each answer overlaps with the one before.
"""

from __future__ import annotations

import msgspec

from fathom.explain.timeline.folding import without_routine
from fathom.explain.timeline.lines import gap_lines
from fathom.explain.timeline.timeline import Entry, Timeline
from fathom.model.times import SECOND_NS, moment_ns

POLL_S, RETRY_S_MAX = 1.0, 10.0
SETTLED_NS = SECOND_NS  # An audit entry is on disk within this time.
OVERLAP_NS = 10 * SECOND_NS
# While a process does not answer, answers go back to where it was last heard; but not for ever.
OVERLAP_NS_MAX = 600 * SECOND_NS
SILENT = "journal of "  # How the gap of a process that does not answer begins.


class FollowedTimeline:
    def __init__(self, shown: Timeline) -> None:
        self.timeline = shown
        self._known = {id_ for entry in shown.entries for id_ in (entry.id, *entry.also)}
        self._gaps = set(gap_lines(shown))
        self._heard_ns = _time_ns(shown)  # When every process last answered.

    @property
    def since_ns(self) -> int:
        """From where on to ask again."""
        latest_ns = max(_time_ns(self.timeline) - OVERLAP_NS_MAX, self._heard_ns - OVERLAP_NS)
        return max(0, latest_ns)

    def add(self, news: Timeline) -> tuple[int, list[str]]:
        """How many entries are new, and which gaps."""
        settled_ns = _time_ns(news) - SETTLED_NS
        entries = without_routine(news.entries, news.edges)
        new = [entry for entry in entries if self._is_new(entry) and entry.time_ns <= settled_ns]
        self._known |= {entry.id for entry in new}
        gaps = [line for line in gap_lines(news) if line not in self._gaps]
        self._gaps = set(gap_lines(news))
        if not any(gap.source.startswith(SILENT) for gap in news.gaps):
            self._heard_ns = _time_ns(news)
        self.timeline = msgspec.structs.replace(
            self.timeline,
            entries=(*self.timeline.entries, *new),
            edges=tuple(dict.fromkeys((*self.timeline.edges, *news.edges))),
            time=news.time,
        )
        return len(new), gaps

    def newest(self, count: int) -> Timeline:
        """The last entries alone, with the edges that lead to them."""
        entries = self.timeline.entries[-count:]
        ids = {entry.id for entry in entries}
        edges = tuple(edge for edge in self.timeline.edges if edge.effect in ids)
        return msgspec.structs.replace(self.timeline, entries=entries, edges=edges)

    def _is_new(self, entry: Entry) -> bool:
        return entry.id not in self._known


def _time_ns(timeline: Timeline) -> int:
    return moment_ns(timeline.time) or 0
