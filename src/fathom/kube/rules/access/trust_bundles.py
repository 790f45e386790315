"""Rules of ClusterTrustBundles: certificates that pods may trust, with or without a signer."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator

from cryptography import x509

from fathom.kube.rules.base import KindRules
from fathom.model import causes, formats
from fathom.model.errors import Cause
from fathom.model.objects import Obj, lookup, metadata

SIGNER_BYTES_MAX = 571  # Kubernetes': a domain, a slash, a path.
BUNDLE_BYTES_MAX = 1 << 20
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----\r?\n(.*?)-----END \1-----", re.DOTALL)
_SEGMENT = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?", re.IGNORECASE)


class TrustBundleRules(KindRules):
    def validate_create(self, obj: Obj) -> list[Cause]:
        signer = str(lookup(obj, "spec", "signerName") or "")
        problems = name_causes(str(metadata(obj).get("name") or ""), signer)
        problems += causes.each("spec.signerName", signer, signer_reasons(signer)) if signer else []
        return problems + bundle_causes(str(lookup(obj, "spec", "trustBundle") or ""))

    def validate_update(self, obj: Obj, old: Obj) -> list[Cause]:
        signer, before = lookup(obj, "spec", "signerName") or "", lookup(old, "spec", "signerName") or ""
        problems = causes.unchanged("spec.signerName", signer, before)
        return problems + bundle_causes(str(lookup(obj, "spec", "trustBundle") or ""))


def name_causes(name: str, signer: str) -> list[Cause]:
    """With the signer a.io/x, names begin with a.io:x: and continue as usual. Other names have no colon."""
    prefix = f"{signer.replace('/', ':')}:" if signer else ""
    if not signer and ":" in name:
        why = "ClusterTrustBundle without signer name must not have ':' in its name"
        return [causes.invalid("metadata.name", name, why)]
    if not name.startswith(prefix):
        why = f"ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}"
        return [causes.invalid("metadata.name", name, why)]
    return causes.each("metadata.name", name, formats.dns_subdomain(name.removeprefix(prefix)))


def signer_reasons(signer: str) -> list[str]:
    domain, slash, path = signer.partition("/")
    if not slash or not domain or not path:
        return ["must be a fully qualified domain and path of the form 'example.com/signer-name'"]
    if len(signer) > SIGNER_BYTES_MAX:
        return [f"must be no more than {SIGNER_BYTES_MAX} bytes"]
    if not all(_SEGMENT.fullmatch(part) for part in path.split("/")):
        return ["the path must consist of segments of letters, digits, '-', '_' and '.', separated by '/'"]
    return formats.dns_subdomain(domain)


def bundle_causes(trust: str) -> list[Cause]:
    """Only the first problem is reported: its message names the entry."""
    problem = next(_bundle_problems(trust), "")
    return [causes.invalid("spec.trustBundle", "<value omitted>", problem)] if problem else []


def _bundle_problems(trust: str) -> Iterator[str]:
    """The problems of a bundle. Text between its certificates is ignored."""
    if len(trust) > BUNDLE_BYTES_MAX:
        yield f"must be no more than {BUNDLE_BYTES_MAX} bytes"
        return
    seen: dict[bytes, int] = {}
    blocks = _BLOCK.findall(trust)
    for index, (kind, body) in enumerate(blocks):
        if kind != "CERTIFICATE":
            yield f"entry {index} has bad block type: {kind}"
            continue
        if ":" in body:
            yield f"entry {index} has PEM block headers"
            continue
        try:
            raw = base64.b64decode("".join(body.split()), validate=True)
            x509.load_der_x509_certificate(raw)
        except ValueError:
            yield f"entry {index} does not parse as X.509"
            continue
        if raw in seen:
            yield f"duplicate trust anchor (indices {seen[raw]} and {index})"
        seen.setdefault(raw, index)
    if not blocks:
        yield "at least one trust anchor must be provided"
