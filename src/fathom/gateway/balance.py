"""Pick the endpoint for the next connection. No sockets here; the caller passes the time.

First a pool, in proportion to the weights (smooth weighted round robin: of 9 to 1, every tenth goes there,
not nine hundred and then a hundred); then the endpoint in it with the fewest connections. An endpoint that
could not be reached is skipped for a while, longer each time; when none is left, all are tried.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fathom.gateway.routes import RouteEndpoint, RouteListener
from fathom.model.backoff import Backoff

OUT = Backoff(1.0, 30.0)
STICKY_MAX = 10_000  # Clients remembered per listener; beyond it the oldest are forgotten.


class _Standing(msgspec.Struct):
    uid: str = ""  # The pod's: another pod may get the address later.
    open: int = 0  # Open connections.
    turn: int = 0  # When it was last picked: with equal connections the least recent is next.
    failures: int = 0  # In a row.
    out_until_s: float = 0.0


Place = tuple[str, int]


def place_of(endpoint: RouteEndpoint) -> Place:
    """The identity of an endpoint, which stays when its pool or its state changes."""
    return endpoint.address, endpoint.port


class Balancer:
    """Balances one listener. It survives new tables: counts and failures of an endpoint stay."""

    def __init__(self, listener: RouteListener) -> None:
        # Endpoints in the table, and those that left it while connections to them are open.
        self._standings: dict[Place, _Standing] = {}
        self._credit: dict[str, int] = {}
        self._sticky: dict[str, tuple[Place, float]] = {}
        self._turn = 0
        self._in_table: set[Place] = set()  # Endpoints in the table.
        self.fell_back = 0  # Connections to pools of no weight: no other endpoint was left.
        self.listener = listener
        self.change(listener)

    def change(self, listener: RouteListener) -> None:
        if listener.weights != self.listener.weights:
            self._credit = {}  # Credit of the old weights does not count.
        self.listener = listener
        self._in_table = {place_of(each) for each in listener.endpoints}
        still_open = {place: standing for place, standing in self._standings.items() if standing.open > 0}
        self._standings = {
            **still_open,
            **{place_of(each): self._standing_of(each) for each in listener.endpoints},
        }
        self._sticky = {
            client: sticky for client, sticky in self._sticky.items() if sticky[0] in self._in_table
        }

    def _standing_of(self, endpoint: RouteEndpoint) -> _Standing:
        standing = self._standings.get(place_of(endpoint)) or _Standing(endpoint.uid)
        return standing if standing.uid == endpoint.uid else _Standing(endpoint.uid, open=standing.open)

    def pick(self, client: str, *, now_s: float, tried: Iterable[RouteEndpoint] = ()) -> RouteEndpoint | None:
        candidates = self._candidates(set(tried), now_s)
        if not candidates:
            return None
        chosen = self._sticky_endpoint(client, candidates, now_s) or self._of_pool(candidates)
        # Counted at the pick, not at the connect: of many simultaneous clients, not all go to one endpoint.
        self._turn += 1
        self._standings[place_of(chosen)].turn = self._turn
        if self.listener.sticky_s:
            self._remember(client, chosen, now_s)
        return chosen

    def _sticky_endpoint(
        self, client: str, candidates: list[RouteEndpoint], now_s: float
    ) -> RouteEndpoint | None:
        """The client's earlier endpoint, unless weights have moved the traffic since."""
        place, until_s = self._sticky.get(client, (None, 0.0))
        if until_s <= now_s:
            return None
        weights = dict(self.listener.weights)
        wanted = [each for each in candidates if weights.get(each.pool, 0) > 0] or candidates
        return next((each for each in wanted if place_of(each) == place), None)

    def _candidates(self, without: set[RouteEndpoint], now_s: float) -> list[RouteEndpoint]:
        """The best endpoints: ready and reachable; else terminating ones; else those that failed lately."""
        untried = [each for each in self.listener.endpoints if each not in without]
        sound = [each for each in untried if self._is_in(each, now_s)]
        staying = [each for each in sound if not each.leaving]
        return staying or sound or untried

    def _of_pool(self, candidates: list[RouteEndpoint]) -> RouteEndpoint:
        weights = dict(self.listener.weights)
        pools = sorted({each.pool for each in candidates})
        wanted = [pool for pool in pools if weights.get(pool, 0) > 0]
        if weights and not wanted:
            self.fell_back += 1
        if wanted:
            pool = self._next_pool(wanted, weights)
            candidates = [each for each in candidates if each.pool == pool]
        return min(candidates, key=self._load)

    def _next_pool(self, pools: list[str], weights: dict[str, int]) -> str:
        for pool in pools:
            self._credit[pool] = self._credit.get(pool, 0) + weights[pool]
        chosen = max(pools, key=lambda pool: self._credit[pool])
        self._credit[chosen] -= sum(weights[pool] for pool in pools)
        return chosen

    def _load(self, endpoint: RouteEndpoint) -> tuple[int, int]:
        standing = self._standings[place_of(endpoint)]
        return standing.open, standing.turn

    def _is_in(self, endpoint: RouteEndpoint, now_s: float) -> bool:
        return self._standings[place_of(endpoint)].out_until_s <= now_s

    def _remember(self, client: str, endpoint: RouteEndpoint, now_s: float) -> None:
        self._sticky.pop(client, None)
        while len(self._sticky) >= STICKY_MAX:
            del self._sticky[next(iter(self._sticky))]
        self._sticky[client] = (place_of(endpoint), now_s + self.listener.sticky_s)

    # Results of connections.

    def connected(self, endpoint: RouteEndpoint) -> None:
        """The endpoint may have left the table while the connection was being made."""
        standing = self._standings.setdefault(place_of(endpoint), _Standing())
        standing.open += 1
        standing.failures, standing.out_until_s = 0, 0.0

    def closed(self, endpoint: RouteEndpoint) -> None:
        place = place_of(endpoint)
        self._standings[place].open -= 1
        if not self._standings[place].open and place not in self._in_table:
            del self._standings[place]

    def failed(self, endpoint: RouteEndpoint, *, now_s: float) -> None:
        standing = self._standings.get(place_of(endpoint))
        if standing is not None:
            standing.failures += 1
            standing.out_until_s = now_s + OUT.whole_s(standing.failures)
