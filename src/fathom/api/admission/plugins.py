"""The plugins that a server starts with: the built-in ones, and those that a user names."""

from __future__ import annotations

import importlib
import random
from collections.abc import Sequence
from importlib import metadata as importlib_metadata
from ipaddress import IPv4Network
from typing import Any

from fathom.api.admission.addresses import ADDRESSES, ServiceAddresses
from fathom.api.admission.capacity import CapacityClassUse
from fathom.api.admission.expansion import PausedExpansion
from fathom.api.admission.fences import Fencing, LeaseFence
from fathom.api.admission.limits import LimitRanger
from fathom.api.admission.namespaces import NamespaceLifecycle
from fathom.api.admission.nodes import NodeConditions, NodeRestriction
from fathom.api.admission.override_finalizer import OverrideFinalizer
from fathom.api.admission.overrides.marks import BreakGlassMarks, BreakGlassTokens
from fathom.api.admission.overrides.plugin import SchedulerOverrides
from fathom.api.admission.overrides.review_plugin import OverrideReviews
from fathom.api.admission.plugin import Plugin
from fathom.api.admission.pods import DefaultTolerationSeconds, ServiceAccount
from fathom.api.admission.priority import Priority
from fathom.api.admission.proposals import RepairProposals
from fathom.api.admission.quota import ResourceQuota
from fathom.api.admission.reports import GatewayReports
from fathom.api.admission.roles import RoleEscalation
from fathom.api.admission.runbook_runs import RunbookRuns
from fathom.api.admission.runtimes import RuntimeClass
from fathom.api.admission.signers import (
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
    TrustBundleAttest,
)
from fathom.api.admission.tenants import TenantUse
from fathom.api.admission.unenforced import UnenforcedKinds
from fathom.api.admission.unseen_pauses import UnseenPauses
from fathom.api.auth.authorize import Authorizer
from fathom.api.binding.placing import NodePlacement, PlacementRules
from fathom.api.ledger.admission import LedgerKeeper
from fathom.seams.outside import Clock

GROUP = "fathom.admission"

# Those that look at other objects, or write more than the request asks for: they declare what.
DECLARING: tuple[type[Plugin], ...] = (
    NamespaceLifecycle, LimitRanger, ServiceAccount, NodeConditions, NodeRestriction, Priority,
    DefaultTolerationSeconds, RuntimeClass, TenantUse, CapacityClassUse, SchedulerOverrides, OverrideReviews,
    BreakGlassMarks, RepairProposals, ServiceAddresses, UnenforcedKinds, LeaseFence, Fencing, ResourceQuota,
    LedgerKeeper, NodePlacement, PausedExpansion, UnseenPauses, PlacementRules, OverrideFinalizer,
)  # fmt: skip


class UnknownPlugin(Exception):
    """A requested plugin cannot be loaded: one line at the start; the server never runs without it."""


def built_in(
    authorizer: Authorizer, rng: random.Random, clock: Clock, service_addresses: IPv4Network = ADDRESSES
) -> tuple[Plugin, ...]:
    """In kube-apiserver's order. Users' plugins follow: they see objects with the defaults applied, and
    quotas, which charge last of all, count what users' plugins made of an object."""
    return (
        NamespaceLifecycle(),
        LimitRanger(),
        ServiceAccount(),
        NodeConditions(),
        NodeRestriction(),
        Priority(),
        DefaultTolerationSeconds(),
        RuntimeClass(),
        RoleEscalation(authorizer),
        CertificateApproval(authorizer),
        CertificateSigning(authorizer),
        TrustBundleAttest(authorizer),
        CertificateSubjectRestriction(),
        TenantUse(authorizer),
        CapacityClassUse(authorizer),
        SchedulerOverrides(authorizer, clock),
        OverrideReviews(clock),
        BreakGlassMarks(authorizer),
        BreakGlassTokens(authorizer),
        RepairProposals(clock),
        RunbookRuns(clock),
        OverrideFinalizer(),
        GatewayReports(),
        ServiceAddresses(rng, service_addresses),
        UnenforcedKinds(clock),
        LeaseFence(),
        Fencing(),
        ResourceQuota(),
        LedgerKeeper(),
        NodePlacement(clock),
        PausedExpansion(clock),
        UnseenPauses(clock),
        PlacementRules(),
    )


def load_plugins(names: Sequence[str]) -> tuple[Plugin, ...]:
    """Users' plugins, in order: 'package.module:Class', or a name in the entry-point group
    `fathom.admission`."""
    return tuple(_plugin(name) for name in names)


def _plugin(name: str) -> Plugin:
    plugin_class = _from_module(name) if ":" in name else _from_entry_point(name)
    if not (isinstance(plugin_class, type) and issubclass(plugin_class, Plugin)):
        raise UnknownPlugin(f"admission plugin {name!r}: not a class derived from {_base()}")
    try:
        plugin = plugin_class()
    except Exception as error:
        raise UnknownPlugin(f"admission plugin {name!r}: {type(error).__name__}: {error}") from error
    if not plugin.name:
        raise UnknownPlugin(f"admission plugin {name!r}: its attribute `name` is empty")
    return plugin


def _base() -> str:
    return f"{Plugin.__module__}.{Plugin.__qualname__}"


def _from_module(name: str) -> Any:
    module, _, path = name.partition(":")
    try:
        attribute: Any = importlib.import_module(module)
        for step in path.split("."):
            attribute = getattr(attribute, step)
    except Exception as error:  # Importing runs a user's code, which may raise anything.
        raise UnknownPlugin(f"admission plugin {name!r}: {type(error).__name__}: {error}") from error
    return attribute


def _from_entry_point(name: str) -> Any:
    points = importlib_metadata.entry_points(group=GROUP)
    chosen = [point for point in points if point.name == name]
    if not chosen:
        known = ", ".join(sorted(point.name for point in points)) or "none installed"
        raise UnknownPlugin(f"admission plugin {name!r}: no such entry point in {GROUP} ({known})")
    try:
        return chosen[0].load()
    except Exception as error:
        raise UnknownPlugin(f"admission plugin {name!r}: {type(error).__name__}: {error}") from error
