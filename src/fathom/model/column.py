"""One printer column of a kind, as data: what `kubectl get` shows."""

from __future__ import annotations

import msgspec


class Column(msgspec.Struct, frozen=True):
    """`path` is a JSONPath into the object (`.spec.replicas`), or `=name` of a function in `kube/columns` for
    what no path can express (a pod's READY). `json_path` is then what other API servers show, which know only
    JSONPaths: '' leaves the column out there."""

    name: str
    type: str  # string, integer, number, boolean, date
    path: str
    description: str = ""
    format: str = ""
    priority: int = 0  # Above 0: only in wide output.
    missing: str = ""  # Shown where the path finds nothing; '': what Go shows, by type.
    json_path: str = ""
