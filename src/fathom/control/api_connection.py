"""A deciding process's connection to its API server: the breaker, its identity, and the lease it may hold.

The controllers' process and the scheduler's process share this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from fathom.client.api import Api, Transport
from fathom.control.breaker import Breaker, BreakerView, Guarded
from fathom.control.lease import Elector, Fenced, LeaderTerm, LeaseStatus, Timing
from fathom.control.metrics import measure_station
from fathom.metrics.numbers import LabeledCounts
from fathom.model.objects import Key
from fathom.model.well_known import ACTOR_HEADER
from fathom.seams.process import Inside


class WantedConnection(Protocol):
    """What the settings of either process say about the connection."""

    @property
    def target(self) -> str: ...  # The breaker's name for the server.
    @property
    def who(self) -> str: ...  # The first part of the identity that holds the lease.
    @property
    def lease(self) -> str: ...  # namespace/name; '' without leader election.
    @property
    def timing(self) -> Timing: ...
    @property
    def user_agent(self) -> str: ...
    @property
    def actor(self) -> str: ...  # Its name in the audit log.


class ApiConnection:
    def __init__(
        self,
        inside: Inside,
        wanted: WantedConnection,
        *,
        answered: Callable[[int], None] = lambda status: None,
    ) -> None:
        """`answered` is called with the status of each finished request; 0 means no answer."""
        self._inside = inside
        self._wanted = wanted
        self.lease_status: LeaseStatus | None = None
        self.answers = LabeledCounts("code", series_max=100)  # Filled only if the process exports metrics.
        self._answered = answered
        self.breaker = Breaker(
            wanted.target,
            inside.streams.stream("breaker"),
            on_change=self._breaker_changed,
            answered=self._count if inside.metrics.enabled else answered,
        )
        measure_station(inside.metrics, self)

    def _count(self, status: int) -> None:
        self.answers.add(str(status))
        self._answered(status)

    def api(self, term: LeaderTerm | None = None) -> Api:
        """The API behind the breaker; in a term of leadership also behind its fence."""
        guarded: Transport = Guarded(self._inside.seam, self.breaker)
        return self._named(Fenced(guarded, term) if term is not None else guarded)

    def elector(self) -> Elector | None:
        """None without leader election."""
        inside, wanted = self._inside, self._wanted
        if not wanted.lease:
            return None
        namespace, _, name = wanted.lease.partition("/")
        return Elector(
            self._named(Guarded(inside.seam, self.breaker, vital=True)),
            Key(namespace, name),
            identity_prefix=wanted.who,
            clock=inside.outside.clock,
            ids=inside.outside.ids,
            rng=inside.streams.stream("lease"),
            timing=wanted.timing,
            on_change=self._lease_status_changed,
        )

    def _named(self, transport: Transport) -> Api:
        actor = self._wanted.actor.removesuffix("/*")
        return Api(transport, headers=(("user-agent", self._wanted.user_agent), (ACTOR_HEADER, actor)))

    def _lease_status_changed(self, lease_status: LeaseStatus) -> None:
        self.lease_status = lease_status
        waits = lease_status.state == "standby" and lease_status.why
        tell = self._inside.log.warn if waits else self._inside.log.info
        tell("lease", state=lease_status.state, identity=lease_status.identity,
             epoch=lease_status.epoch, why=lease_status.why)  # fmt: skip

    def _breaker_changed(self, view: BreakerView) -> None:
        self._inside.log.warn("breaker", target=view.target, state=view.state, opened=view.opened,
                              refused=view.refused, last_failure=view.last_failure)  # fmt: skip
