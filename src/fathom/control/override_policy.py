"""Reads the admission policy for overrides back from a server that is not fathom's."""

from __future__ import annotations

from fathom.client.api import Api, Resource
from fathom.kinds.override_policy import NAME, Vouching, vouching
from fathom.model.errors import ApiError

ADMISSION = "admissionregistration.k8s.io"
POLICIES = Resource(ADMISSION, "v1", "validatingadmissionpolicies", namespaced=False)
POLICY_BINDINGS = Resource(ADMISSION, "v1", "validatingadmissionpolicybindings", namespaced=False)


async def fetch_vouching(api: Api) -> Vouching:
    """What it vouches for. A policy that may not be read vouches for nothing. Raises ApiError where the
    server does not say."""
    try:
        policy = await api.get(POLICIES, "", NAME)
        binding = await api.get(POLICY_BINDINGS, "", NAME)
    except ApiError as error:
        if error.code != 403:
            raise
        return Vouching(None, f"the policy {NAME} cannot be read: {error.message}")
    return vouching(policy, binding)
