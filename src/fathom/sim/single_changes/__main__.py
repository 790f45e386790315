"""Compares `why` with brute force for many waiting pods.

python -m fathom.sim.single_changes --seeds 0..300 [--pods 200] [-v]
"""

from __future__ import annotations

import argparse
import sys

from fathom.sim.single_changes.compare import Compared, compared
from fathom.sim.single_changes.random_cluster import waiting_pod
from fathom.sim.single_changes.report import report_lines, summary_line


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fathom.sim.single_changes", description=__doc__)
    parser.add_argument("--seeds", default="0..100", metavar="A..B", help="the clusters to draw")
    parser.add_argument("--pods", type=int, default=0, metavar="N", help="stop after so many waiting pods")
    parser.add_argument("-v", "--verbose", action="store_true", help="print every pod, not only problems")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("..")
    results: list[Compared] = []
    for seed in range(int(first), int(last or int(first) + 1)):
        waiting = waiting_pod(seed)
        if waiting is None:
            continue
        result = compared(waiting)
        results.append(result)
        _print(result, verbose=options.verbose)
        if len(results) == options.pods:
            break
    sys.stdout.write(f"{summary_line(results)}\n")
    return 1 if any(result.problems for result in results) else 0


def _print(result: Compared, *, verbose: bool) -> None:
    if result.problems or verbose:
        sys.stdout.write("\n".join(report_lines(result)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
