"""Who gets the next connection. No sockets here; time comes in.

First a pool, in proportion to the weights (smooth weighted round robin: of 9 to 1, every tenth goes there,
not nine hundred and then a hundred); then the endpoint of it with the fewest connections. One that could not
be reached is left out for a while, longer each time; when nobody is left, everybody is tried.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fathom.agent.gateway.routes import Endpoint, Listener

OUT_S_MIN, OUT_S_MAX = 1.0, 30.0
STICKY_MAX = 10_000  # Clients remembered per listener; beyond it the oldest are forgotten.


class _Standing(msgspec.Struct):
    open: int = 0  # Connections under way.
    served: int = 0  # Ever, for fairness between idle ones.
    failures: int = 0  # In a row.
    out_until_s: float = 0.0


class Balancer:
    """One listener's. Survives new tables: what is known of an endpoint stays."""

    def __init__(self, listener: Listener) -> None:
        self._standings: dict[Endpoint, _Standing] = {}
        self._credit: dict[str, int] = {}
        self._sticky: dict[str, tuple[Endpoint, float]] = {}
        self.fell_back = 0  # Connections that went where no weight sends them: nobody else was left.
        self.listener = listener
        self.change(listener)

    def change(self, listener: Listener) -> None:
        self.listener = listener
        known = self._standings
        self._standings = {each: known.get(each) or _Standing() for each in listener.endpoints}
        self._sticky = {who: kept for who, kept in self._sticky.items() if kept[0] in self._standings}

    def pick(self, client: str, *, now_s: float, tried: Iterable[Endpoint] = ()) -> Endpoint | None:
        without = set(tried)
        kept = self._sticky.get(client)
        if kept is not None and kept[1] > now_s and kept[0] not in without and self._is_in(kept[0], now_s):
            return kept[0]
        candidates = self._candidates(without, now_s)
        if not candidates:
            return None
        chosen = self._of_pool(candidates)
        if self.listener.sticky_s:
            self._remember(client, chosen, now_s)
        return chosen

    def _candidates(self, without: set[Endpoint], now_s: float) -> list[Endpoint]:
        """The best there are: ready and reachable, then leaving ones, then those that failed lately."""
        left = [each for each in self._standings if each not in without]
        sound = [each for each in left if self._is_in(each, now_s)]
        staying = [each for each in sound if not each.leaving]
        return staying or sound or left

    def _of_pool(self, candidates: list[Endpoint]) -> Endpoint:
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

    def _load(self, endpoint: Endpoint) -> tuple[int, int]:
        standing = self._standings[endpoint]
        return standing.open, standing.served

    def _is_in(self, endpoint: Endpoint, now_s: float) -> bool:
        standing = self._standings.get(endpoint)
        return standing is not None and standing.out_until_s <= now_s

    def _remember(self, client: str, endpoint: Endpoint, now_s: float) -> None:
        self._sticky.pop(client, None)
        while len(self._sticky) >= STICKY_MAX:
            del self._sticky[next(iter(self._sticky))]
        self._sticky[client] = (endpoint, now_s + self.listener.sticky_s)

    # What came of it.

    def connected(self, endpoint: Endpoint) -> None:
        standing = self._standings.get(endpoint)
        if standing is not None:
            standing.open += 1
            standing.served += 1
            standing.failures, standing.out_until_s = 0, 0.0

    def closed(self, endpoint: Endpoint) -> None:
        standing = self._standings.get(endpoint)
        if standing is not None:
            standing.open -= 1

    def failed(self, endpoint: Endpoint, *, now_s: float) -> None:
        standing = self._standings.get(endpoint)
        if standing is not None:
            standing.failures += 1
            standing.out_until_s = now_s + min(OUT_S_MAX, OUT_S_MIN * 2 ** (standing.failures - 1))
