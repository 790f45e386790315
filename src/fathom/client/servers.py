"""Finds the API server and its credentials: from a kubeconfig or, inside a pod, from the service account."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from fathom.client.credentials import (
    API_VERSIONS,
    CredentialPlugin,
    Fixed,
    Headers,
    NoCredentials,
    PluginCredentials,
    TokenFile,
    basic,
    bearer,
)
from fathom.client.kubeconfig import BadKubeconfig, KubeconfigContext, Part, read_context, tls_of, token_of
from fathom.client.server_address import Credentials, ServerAddress
from fathom.seams.outside import Clock

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def find_files(kubeconfig: Path | None, environ: Mapping[str, str]) -> list[Path]:
    """The files that kubectl would read; empty if there are none, as inside a pod."""
    if kubeconfig is not None:
        return [kubeconfig]
    if named := environ.get("KUBECONFIG"):
        return [path for part in named.split(":") if part and (path := Path(part)).exists()]
    home = Path(environ.get("HOME") or "/", ".kube", "config")
    return [home] if home.exists() else []


def find_server(kubeconfig: Path | None, *, clock: Clock, environ: Mapping[str, str]) -> ServerAddress:
    """The server that kubectl would use; inside a pod, the cluster's own."""
    files = find_files(kubeconfig, environ)
    if files:
        return server_of(read_context(files), clock=clock, environ=environ)
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster(environ)
    if named := environ.get("KUBECONFIG"):
        raise BadKubeconfig(f"KUBECONFIG names {named}, which does not exist: correct or unset it")
    raise BadKubeconfig(
        "no kubeconfig: start a cluster here with `fathom up`, or name one with --kubeconfig or KUBECONFIG"
    )


def find_server_for(
    token: str, kubeconfig: Path | None, *, clock: Clock, environ: Mapping[str, str]
) -> ServerAddress:
    """The same server for another caller: with their token, and nothing of the kubeconfig's user."""
    files = find_files(kubeconfig, environ)
    if files:
        theirs = msgspec.structs.replace(read_context(files), user={"token": token})
        return server_of(theirs, clock=clock, environ=environ)
    ours = find_server(kubeconfig, clock=clock, environ=environ)
    return msgspec.structs.replace(ours, credentials=Fixed(bearer(token)), renewing=None)


def in_cluster(environ: Mapping[str, str], account: Path = ACCOUNT) -> ServerAddress:
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    shown = f"[{host}]" if ":" in host else host
    try:
        tls = ssl.create_default_context(cafile=str(account / "ca.crt"))
        return ServerAddress(f"https://{shown}:{port}", tls, TokenFile(account / "token"))
    except (OSError, NoCredentials) as error:
        raise BadKubeconfig(f"the service account in {account} cannot be used: {error}") from error


def server_of(context: KubeconfigContext, *, clock: Clock, environ: Mapping[str, str]) -> ServerAddress:
    """The address, ready for requests. A credential plugin runs with the first request, not now."""
    if context.cluster.get("proxy-url"):
        raise BadKubeconfig(f"{context.source}: proxy-url is not supported")
    tls = tls_of(context)
    url = context.url
    credentials = _credentials(context, tls, clock, environ)
    return ServerAddress(
        url=f"{url.scheme}://{url.netloc}{url.path.rstrip('/')}",
        tls=tls,
        credentials=credentials,
        server_name=str(context.cluster.get("tls-server-name") or ""),
        renewing=credentials if isinstance(credentials, PluginCredentials) else None,
    )


def _credentials(
    context: KubeconfigContext, tls: ssl.SSLContext, clock: Clock, environ: Mapping[str, str]
) -> Credentials:
    user, source = context.user, context.source
    on_behalf = _impersonation(user)
    if user.get("auth-provider"):
        _refuse(source, "auth-provider was removed from Kubernetes; use exec, a token or a certificate")
    if isinstance(user.get("exec"), dict):
        if on_behalf:
            _refuse(source, "impersonation together with exec is not supported")
        return PluginCredentials(_plugin(context), tls, clock, environ)
    if user.get("tokenFile") and not user.get("token") and not on_behalf:
        try:
            return TokenFile(Path(str(user["tokenFile"])))
        except NoCredentials as error:
            raise BadKubeconfig(f"{source}: {error}") from error
    if user.get("username"):
        return Fixed((*basic(str(user["username"]), str(user.get("password") or "")), *on_behalf))
    return Fixed((*bearer(token_of(context)), *on_behalf))


def _impersonation(user: Part) -> Headers:
    if not user.get("as"):
        return ()
    extra = user.get("as-user-extra") or {}
    return (
        ("impersonate-user", str(user["as"])),
        *((("impersonate-uid", str(user["as-uid"])),) if user.get("as-uid") else ()),
        *(("impersonate-group", str(group)) for group in user.get("as-groups") or ()),
        *((f"impersonate-extra-{name}", str(value)) for name in sorted(extra) for value in extra[name]),
    )


def _plugin(context: KubeconfigContext) -> CredentialPlugin:
    spec, source = context.user["exec"], context.source
    version = spec.get("apiVersion")
    if version not in API_VERSIONS:
        _refuse(
            source, f"the user's exec has apiVersion {version!r}; supported are {' and '.join(API_VERSIONS)}"
        )
    if spec.get("interactiveMode") == "Always":
        _refuse(source, "the user's exec requires a terminal (interactiveMode: Always), but there is none")
    if not spec.get("command"):
        _refuse(source, "the user's exec has no command")
    env = spec.get("env") or ()
    return CredentialPlugin(
        command=str(spec["command"]),
        api_version=version,
        args=tuple(str(arg) for arg in spec.get("args") or ()),
        env=tuple((str(variable["name"]), str(variable.get("value") or "")) for variable in env),
        hint=" ".join(str(spec.get("installHint") or "").split()),
        cluster=_cluster_info(context.cluster) if spec.get("provideClusterInfo") else None,
    )


def _cluster_info(cluster: Part) -> dict[str, Any]:
    """The cluster information for a plugin that asks for it."""
    cluster_info = {
        field: cluster[field]
        for field in ("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data")
        if cluster.get(field)
    }
    if cluster.get("certificate-authority") and "certificate-authority-data" not in cluster_info:
        authority = Path(str(cluster["certificate-authority"])).read_bytes()
        cluster_info["certificate-authority-data"] = base64.b64encode(authority).decode()
    for extension in cluster.get("extensions") or ():
        if extension.get("name") == "client.authentication.k8s.io/exec":
            cluster_info["config"] = extension.get("extension")
    return cluster_info


def _refuse(source: str, message: str) -> NoReturn:
    raise BadKubeconfig(f"{source}: {message}")
