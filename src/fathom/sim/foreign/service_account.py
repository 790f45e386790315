"""What a Pod's process finds of its cluster: variables, and the files of its service account.

The files are real ones, in another place; calls that open them or look at them are led there. For programs
that know no other way there is a kubeconfig in their home, too.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fathom.sim.foreign.machine import Machine

HOME = Path(__file__).parent / "home"
FILES = str(HOME / "serviceaccount")

# The second is where the first, a symbolic link in most images, leads to.
MOUNTED = ("/var/run/secrets/kubernetes.io/serviceaccount", "/run/secrets/kubernetes.io/serviceaccount")

CLIENTS = tuple(
    f"{client}.{module}"
    for client in ("kubernetes", "kubernetes_asyncio")
    for module in ("config", "config.kube_config")
)

# Of `os`.
CALLS_WITH_A_PATH = ("open", "stat", "lstat", "access", "listdir", "scandir")


def variables(address: str) -> dict[str, str]:
    """Those that the kubelet sets for the Service `kubernetes`."""
    return {
        "KUBERNETES_SERVICE_HOST": address,
        "KUBERNETES_SERVICE_PORT": "443",
        "KUBERNETES_SERVICE_PORT_HTTPS": "443",
        "KUBERNETES_PORT": f"tcp://{address}:443",
        "KUBERNETES_PORT_443_TCP": f"tcp://{address}:443",
    }


def use_own_kubeconfig() -> None:
    """The official clients read KUBECONFIG when they are imported, which may have been in the test."""
    for name in CLIENTS:
        if name in sys.modules:
            vars(sys.modules[name])["KUBE_CONFIG_DEFAULT_LOCATION"] = str(HOME / ".kube/config")


def led(machine: Machine, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call `original`, whose first argument is a path."""
    return original(place_of(args[0]), *args[1:], **kwargs) if args else original(**kwargs)


def verify_locations(machine: Machine, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`SSLContext.load_verify_locations`: the file comes second, or by its name."""
    context, *rest = args
    if "cafile" in kwargs:
        kwargs = {**kwargs, "cafile": place_of(kwargs["cafile"])}
    return original(context, *(place_of(path) for path in rest[:1]), *rest[1:], **kwargs)


def place_of(path: Any) -> Any:
    """Where the file of a service account really is; every other path as it was."""
    if not isinstance(path, str | os.PathLike):
        return path
    text = os.fspath(path)
    if isinstance(text, str):
        for mounted in MOUNTED:
            if text == mounted or text.startswith(mounted + "/"):
                return FILES + text[len(mounted) :]
    return path
