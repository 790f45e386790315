"""The server's authority: made once, loaded ever after, and used in real handshakes."""

from __future__ import annotations

import socket
import ssl
import threading
from base64 import b64decode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from tests.api.auth.cluster import StoppedClock, user

from fathom.api.auth import certificates
from fathom.api.auth.certificates import Pki, PkiError, ensure_pki, issue_client, kubeconfig
from fathom.api.auth.tls import server_context
from fathom.model.user import MASTERS, User
from fathom.private_files import write_private
from fathom.seams.outside import SystemClock

CLOCK = SystemClock()


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return ensure_pki(
        tmp_path_factory.mktemp("data"), ["api.example.com", "10.1.2.3", "fd00::1"], clock=CLOCK
    )


def contents(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted((directory / "pki").iterdir())}


def server_certificate(directory: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate((directory / "pki" / "server.pem").read_bytes())


def test_a_first_start_makes_everything_for_its_owner_only(tmp_path: Path) -> None:
    ensure_pki(tmp_path, clock=CLOCK)
    modes = {file.name: oct(file.stat().st_mode & 0o777) for file in (tmp_path / "pki").iterdir()}
    assert modes == {"ca.crt": "0o600", "ca.key": "0o600", "sa.key": "0o600", "server.pem": "0o600"}
    assert oct((tmp_path / "pki").stat().st_mode & 0o777) == "0o700"


def test_a_second_start_changes_nothing(tmp_path: Path) -> None:
    first = ensure_pki(tmp_path, ["a.example.com"], clock=CLOCK)
    before = contents(tmp_path)
    second = ensure_pki(tmp_path, ["a.example.com"], clock=CLOCK)
    assert contents(tmp_path) == before
    assert first.ca == second.ca


def test_files_that_others_can_read_are_closed_again(tmp_path: Path) -> None:
    ensure_pki(tmp_path, clock=CLOCK)
    for path in ((tmp_path / "pki"), (tmp_path / "pki" / "ca.key")):
        path.chmod(0o755)
    ensure_pki(tmp_path, clock=CLOCK)
    assert oct((tmp_path / "pki").stat().st_mode & 0o777) == "0o700"
    assert oct((tmp_path / "pki" / "ca.key").stat().st_mode & 0o777) == "0o600"


def test_the_server_is_known_by_all_its_names(pki: Pki) -> None:
    certificate = x509.load_pem_x509_certificate(pki.server_file.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "api.example.com",
    } <= set(names.get_values_for_type(x509.DNSName))
    addresses = [str(one) for one in names.get_values_for_type(x509.IPAddress)]
    assert sorted(addresses) == ["10.1.2.3", "127.0.0.1", "127.96.0.1", "::1", "fd00::1"]


def test_new_names_renew_the_servers_certificate_and_nothing_else(tmp_path: Path) -> None:
    ensure_pki(tmp_path, clock=CLOCK)
    before = contents(tmp_path)
    ensure_pki(tmp_path, ["new.example.com"], clock=CLOCK)
    after = contents(tmp_path)
    assert {name for name in after if after[name] != before[name]} == {"server.pem"}


def test_the_order_and_spelling_of_names_do_not_matter(tmp_path: Path) -> None:
    ensure_pki(tmp_path, ["a.example.com", "FD00:0::1"], clock=CLOCK)
    before = contents(tmp_path)
    ensure_pki(tmp_path, ["fd00::1", "A.Example.com", "localhost"], clock=CLOCK)
    assert contents(tmp_path) == before


def test_a_certificate_near_its_end_is_renewed(tmp_path: Path) -> None:
    clock = StoppedClock()
    ensure_pki(tmp_path, clock=clock)
    first = server_certificate(tmp_path)
    clock.pass_s(timedelta(days=330).total_seconds())
    ensure_pki(tmp_path, clock=clock)
    assert server_certificate(tmp_path) == first
    clock.pass_s(timedelta(days=10).total_seconds())
    ensure_pki(tmp_path, clock=clock)
    assert server_certificate(tmp_path).not_valid_after_utc > first.not_valid_after_utc


def test_nothing_outlives_the_authority(tmp_path: Path) -> None:
    clock = StoppedClock()
    pki = ensure_pki(tmp_path, clock=clock)
    clock.pass_s(timedelta(days=3600).total_seconds())
    certificate, _ = issue_client(pki, user("jane"), clock=clock)
    assert x509.load_pem_x509_certificate(certificate).not_valid_after_utc == pki.ca.not_valid_after_utc


def test_a_crash_between_key_and_certificate_is_finished_by_the_next_start(tmp_path: Path) -> None:
    ensure_pki(tmp_path, clock=CLOCK)
    key = (tmp_path / "pki" / "ca.key").read_bytes()
    (tmp_path / "pki" / "ca.crt").unlink()
    (tmp_path / "pki" / "server.pem").unlink()
    (tmp_path / "pki" / ".server.pem.new").write_bytes(b"half")
    server_context(ensure_pki(tmp_path, clock=CLOCK))
    assert (tmp_path / "pki" / "ca.key").read_bytes() == key


@pytest.mark.parametrize("name", ["ca.key", "ca.crt", "server.pem", "sa.key"])
@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_a_damaged_file_is_one_line_that_names_it_and_says_what_to_do(
    tmp_path: Path, name: str, content: bytes
) -> None:
    ensure_pki(tmp_path, clock=CLOCK)
    (tmp_path / "pki" / name).write_bytes(content)
    with pytest.raises(PkiError) as error:
        ensure_pki(tmp_path, clock=CLOCK)
    message = str(error.value)
    assert str(tmp_path / "pki" / name) in message
    assert "remove" in message
    assert "\n" not in message


def other_key() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def test_a_lost_or_foreign_authority_key_is_an_error(tmp_path: Path) -> None:
    ensure_pki(tmp_path, clock=CLOCK)
    (tmp_path / "pki" / "ca.key").write_bytes(other_key())
    with pytest.raises(PkiError, match=r"ca\.crt does not belong to ca\.key"):
        ensure_pki(tmp_path, clock=CLOCK)
    (tmp_path / "pki" / "ca.key").unlink()
    with pytest.raises(PkiError, match=r"ca\.key is missing beside ca\.crt"):
        ensure_pki(tmp_path, clock=CLOCK)


def test_a_server_certificate_of_an_earlier_authority_is_replaced(tmp_path: Path) -> None:
    ensure_pki(tmp_path, clock=CLOCK)
    (tmp_path / "pki" / "ca.key").unlink()
    (tmp_path / "pki" / "ca.crt").unlink()
    pki = ensure_pki(tmp_path, clock=CLOCK)
    server_certificate(tmp_path).verify_directly_issued_by(pki.ca)


@pytest.mark.parametrize("days", [-1, 3651])
def test_an_authority_outside_its_time_is_an_error(tmp_path: Path, days: int) -> None:
    clock = StoppedClock()
    ensure_pki(tmp_path, clock=clock)
    clock.pass_s(timedelta(days=days).total_seconds())
    with pytest.raises(PkiError, match=r"ca\.crt is valid only .*check the clock"):
        ensure_pki(tmp_path, clock=clock)


def test_an_encrypted_or_weak_key_is_an_error(tmp_path: Path) -> None:
    ensure_pki(tmp_path, clock=CLOCK)
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    secret = ec.generate_private_key(ec.SECP256R1())
    for pem in (
        weak.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")),
    ):
        (tmp_path / "pki" / "sa.key").write_bytes(pem)
        with pytest.raises(PkiError, match=r"sa\.key"):
            ensure_pki(tmp_path, clock=CLOCK)


def test_an_rsa_key_may_sign_tokens(tmp_path: Path) -> None:
    ensure_pki(tmp_path, clock=CLOCK)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    (tmp_path / "pki" / "sa.key").write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    assert isinstance(ensure_pki(tmp_path, clock=CLOCK).accounts_key, rsa.RSAPrivateKey)


@pytest.mark.parametrize(
    "name", ["https://x", "x:6443", "", "a b", "ü.example", "10.0.0.0/8", "x" * 300 + "!"]
)
def test_a_name_that_is_none_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(PkiError, match="neither a DNS name nor an IP address"):
        ensure_pki(tmp_path, [name], clock=CLOCK)


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "pki").write_text("a file")
    with pytest.raises(PkiError, match="check the directory's permissions"):
        ensure_pki(tmp_path, clock=CLOCK)


@pytest.mark.parametrize("name", ["", "x" * 65])
def test_a_user_whose_name_does_not_fit_is_an_error(pki: Pki, name: str) -> None:
    with pytest.raises(PkiError, match="does not fit into a certificate"):
        issue_client(pki, User(name), clock=CLOCK)


def test_the_kubeconfig_holds_all_that_a_client_needs(pki: Pki) -> None:
    config = yaml.safe_load(kubeconfig(pki, "https://127.0.0.1:6443", clock=CLOCK))
    assert config["current-context"] == "fathom"
    assert config["contexts"] == [
        {"name": "fathom", "context": {"cluster": "fathom", "user": "fathom-admin"}}
    ]
    (cluster,) = config["clusters"]
    assert cluster["cluster"]["server"] == "https://127.0.0.1:6443"
    assert b64decode(cluster["cluster"]["certificate-authority-data"]) == pki.ca_pem
    certificate = x509.load_pem_x509_certificate(
        b64decode(config["users"][0]["user"]["client-certificate-data"])
    )
    assert certificate.subject.rfc4514_string() == f"CN=fathom-admin,O={MASTERS}"


def test_a_private_file_is_replaced_whole_and_never_readable_by_others(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text("old")
    file.chmod(0o644)
    write_private(file, b"new")
    assert (file.read_bytes(), oct(file.stat().st_mode & 0o777)) == (b"new", "0o600")
    assert [one.name for one in tmp_path.iterdir()] == ["kubeconfig"]


def test_constants_leave_time_to_renew() -> None:
    assert certificates.RENEW_DAYS < certificates.SERVER_DAYS < certificates.CA_DAYS


# Handshakes.


class Echo:
    """A server that answers each connection with the name in the client's certificate."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.settimeout(5)
            try:
                with self._context.wrap_socket(connection, server_side=True) as tls:
                    tls.sendall(_common_name(tls.getpeercert(binary_form=True)).encode())
            except OSError:
                connection.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)


def _common_name(der: bytes | None) -> str:
    return x509.load_der_x509_certificate(der).subject.rfc4514_string() if der else "nobody"


@pytest.fixture(scope="module")
def echo(pki: Pki) -> Iterator[Echo]:
    server = Echo(server_context(pki))
    yield server
    server.close()


def client_context(pki: Pki, tmp_path: Path, credential: tuple[bytes, bytes] | None = None) -> ssl.SSLContext:
    """As strict as the newest Python's clients are."""
    context = ssl.create_default_context(cafile=str(pki.ca_file))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    if credential:
        file = tmp_path / "client.pem"
        file.write_bytes(b"".join(credential))
        context.load_cert_chain(file)
    return context


class Heard(NamedTuple):
    answer: str
    version: str | None
    session: ssl.SSLSession | None
    reused: bool | None


def ask(
    echo: Echo, context: ssl.SSLContext, host: str = "localhost", session: ssl.SSLSession | None = None
) -> Heard:
    connection = socket.create_connection(("127.0.0.1", echo.port), timeout=5)
    with context.wrap_socket(connection, server_hostname=host, session=session) as tls:
        return Heard(tls.recv(1000).decode(), tls.version(), tls.session, tls.session_reused)


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "kubernetes.default.svc", "api.example.com", "fd00::1"]
)
def test_a_client_trusts_the_server_under_each_of_its_names(
    pki: Pki, echo: Echo, tmp_path: Path, host: str
) -> None:
    heard = ask(echo, client_context(pki, tmp_path), host)
    assert (heard.answer, heard.version) == ("nobody", "TLSv1.3")


def test_a_client_does_not_trust_it_under_another_name(pki: Pki, echo: Echo, tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        ask(echo, client_context(pki, tmp_path), "evil.example.com")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_certificate_reaches_the_server_also_on_a_resumed_session(
    pki: Pki, echo: Echo, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    context = client_context(pki, tmp_path, issue_client(pki, User("jane", ("ops",)), clock=CLOCK))
    context.maximum_version = version
    first = ask(echo, context)
    assert (first.answer, first.reused) == ("CN=jane,O=ops", False)
    second = ask(echo, context, session=first.session)
    assert (second.answer, second.reused) == ("CN=jane,O=ops", True)


def test_tls_1_2_prefers_the_fast_cipher_and_http_1_1(pki: Pki, echo: Echo, tmp_path: Path) -> None:
    context = client_context(pki, tmp_path)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2", "http/1.1"])
    connection = socket.create_connection(("127.0.0.1", echo.port), timeout=5)
    with context.wrap_socket(connection, server_hostname="localhost") as tls:
        cipher = tls.cipher()
        assert cipher is not None
        assert cipher[0] == "ECDHE-ECDSA-AES128-GCM-SHA256"
        assert tls.selected_alpn_protocol() == "http/1.1"


def test_older_protocols_are_refused(pki: Pki) -> None:
    assert server_context(pki).minimum_version == ssl.TLSVersion.TLSv1_2


def refused(echo: Echo, context: ssl.SSLContext) -> bool:
    """With TLS 1.3 a client hears of its rejection only when it reads."""
    try:
        return ask(echo, context).answer == ""
    except (ssl.SSLError, ConnectionError):
        return True


def test_a_certificate_of_another_authority_is_refused(pki: Pki, echo: Echo, tmp_path: Path) -> None:
    stranger = ensure_pki(tmp_path / "stranger", clock=CLOCK)
    assert refused(echo, client_context(pki, tmp_path, issue_client(stranger, user("jane"), clock=CLOCK)))


def test_an_expired_certificate_is_refused(pki: Pki, echo: Echo, tmp_path: Path) -> None:
    past = StoppedClock(int((datetime.now(UTC) - timedelta(days=3)).timestamp()))
    assert refused(echo, client_context(pki, tmp_path, issue_client(pki, user("jane"), clock=past, days=1)))


def test_the_servers_own_certificate_is_no_client_certificate(pki: Pki, echo: Echo, tmp_path: Path) -> None:
    assert refused(echo, client_context(pki, tmp_path, (pki.server_file.read_bytes(), b"")))


def test_a_server_file_that_tls_cannot_use_is_an_error(pki: Pki, tmp_path: Path) -> None:
    file = tmp_path / "server.pem"
    file.write_bytes(pki.ca_pem)
    broken = Pki(pki.ca, pki.ca_key, pki.ca_file, file, pki.accounts_key)
    with pytest.raises(PkiError, match="cannot be used for TLS"):
        server_context(broken)
