"""Why TLS fails, in words. Real servers of Python's ssl on loopback, real certificates."""

import datetime as dt
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sunk.directory.failure import Failure
from sunk.directory.ldap.search import Connection, TlsFiles
from sunk.directory.ldap.tlsprobe import START_TLS, address, check_files, diagnose
from sunk.local.certificates import LASTS, PAST, FiledAuthority
from sunk.model.contract.people import REFUSED, UNREACHABLE

GRANTED = bytes.fromhex("300c02010178070a010004000400")
REFUSAL = bytes.fromhex("300c02010178070a010204000400")


@contextmanager
def server(handle: Callable[[socket.socket], None]) -> Iterator[int]:
    """Answer each connection in this way until the block ends."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(10)
                try:
                    handle(connection)
                except OSError:
                    continue

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


def tls(context: ssl.SSLContext) -> Callable[[socket.socket], None]:
    def handle(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as encrypted:
            encrypted.recv(1)

    return handle


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> FiledAuthority:
    return FiledAuthority(tmp_path_factory.mktemp("ca"))


def context_of(authority: FiledAuthority, *, host: str = "127.0.0.1", lasts: dt.timedelta = LASTS) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(*authority.server(host, lasts=lasts))
    return made


def probe(port: int, files: TlsFiles, *, scheme: str = "ldaps") -> str:
    found = diagnose(
        Connection(f"{scheme}://127.0.0.1:{port}", start_tls=scheme == "ldap", tls=files, network_timeout=5)
    )
    return "" if found is None else f"{found.state} {found.option} {found.words}"


def test_nothing_is_said_where_all_is_well(authority: FiledAuthority) -> None:
    with server(tls(context_of(authority))) as port:
        assert probe(port, TlsFiles(ca=str(authority.certificate))) == ""


def test_an_expired_certificate(authority: FiledAuthority) -> None:
    with server(tls(context_of(authority, lasts=PAST))) as port:
        assert "has expired" in probe(port, TlsFiles(ca=str(authority.certificate)))


def test_a_certificate_for_somebody_else(authority: FiledAuthority) -> None:
    with server(tls(context_of(authority, host="ldap.example.com"))) as port:
        assert "another host name" in probe(port, TlsFiles(ca=str(authority.certificate)))


def test_an_unknown_authority(authority: FiledAuthority, tmp_path: Path) -> None:
    other = FiledAuthority(tmp_path)
    with server(tls(context_of(authority))) as port:
        found = probe(port, TlsFiles(ca=str(other.certificate)))
    assert found.startswith(f"{REFUSED} ldap_tls_cacert")
    assert "unknown CA" in found


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_server_that_wants_a_certificate(authority: FiledAuthority, newest: ssl.TLSVersion) -> None:
    demanding = context_of(authority)
    demanding.maximum_version = newest
    demanding.verify_mode = ssl.CERT_REQUIRED
    demanding.load_verify_locations(authority.certificate)
    certificate, key = authority.client("agent")
    with server(tls(demanding)) as port:
        found = probe(port, TlsFiles(ca=str(authority.certificate)))
        with_ours = TlsFiles(ca=str(authority.certificate), certificate=str(certificate), key=str(key))
        assert probe(port, with_ours) == ""
    assert found.startswith(f"{REFUSED} ldap_tls_cert")
    assert "want" in found


def test_a_client_certificate_of_an_unknown_authority(authority: FiledAuthority, tmp_path: Path) -> None:
    demanding = context_of(authority)
    demanding.verify_mode = ssl.CERT_REQUIRED
    demanding.load_verify_locations(authority.certificate)
    certificate, key = FiledAuthority(tmp_path).client("agent")
    files = TlsFiles(ca=str(authority.certificate), certificate=str(certificate), key=str(key))
    with server(tls(demanding)) as port:
        assert probe(port, files).startswith(f"{REFUSED} ldap_tls_cert")


def test_start_tls_is_asked_for_first(authority: FiledAuthority) -> None:
    context = context_of(authority)

    def handle(connection: socket.socket) -> None:
        assert connection.recv(100) == START_TLS
        connection.sendall(GRANTED)
        tls(context)(connection)

    with server(handle) as port:
        assert probe(port, TlsFiles(ca=str(authority.certificate)), scheme="ldap") == ""


@pytest.mark.parametrize(
    ("reply", "words"), [(REFUSAL, "no StartTLS"), (b"SSH-2.0-OpenSSH\r\n", "no LDAP server"), (b"", "hangs up")]
)
def test_a_server_without_start_tls(reply: bytes, words: str) -> None:
    def handle(connection: socket.socket) -> None:
        connection.recv(100)
        connection.sendall(reply)

    with server(handle) as port:
        assert words in probe(port, TlsFiles(), scheme="ldap")


def test_a_port_that_speaks_no_tls(authority: FiledAuthority) -> None:
    with server(lambda connection: connection.sendall(b"hello, this is plain text\r\n" * 3)) as port:
        assert probe(port, TlsFiles(ca=str(authority.certificate))).startswith(REFUSED)


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    assert "connection refused" in probe(port, TlsFiles())


def test_a_name_that_nobody_knows() -> None:
    found = diagnose(Connection("ldaps://no-such-host.invalid", start_tls=False, network_timeout=5))
    assert found is not None
    assert found.state == UNREACHABLE


def test_a_plain_connection_is_not_asked_about_tls() -> None:
    with server(lambda _: None) as port:
        assert diagnose(Connection(f"ldap://127.0.0.1:{port}", start_tls=False, network_timeout=5)) is None


def test_ports_follow_the_scheme() -> None:
    assert address("ldap://a") == ("a", 389)
    assert address("ldaps://a") == ("a", 636)
    assert address("ldaps://[::1]:1636") == ("::1", 1636)


def test_the_request_is_that_of_the_standard() -> None:
    assert len(START_TLS) == 31
    assert START_TLS[1] == len(START_TLS) - 2


def test_files_that_cannot_be_used_are_refused(authority: FiledAuthority, tmp_path: Path) -> None:
    nonsense = tmp_path / "nonsense"
    nonsense.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    certificate, key = authority.client("agent")
    other = authority.client("other")[1]
    check_files(TlsFiles(ca=str(authority.certificate), certificate=str(certificate), key=str(key)))
    for files, option in (
        (TlsFiles(ca=str(nonsense)), "ldap_tls_cacert"),
        (TlsFiles(ca=str(tmp_path / "missing")), "ldap_tls_cacert"),
        (TlsFiles(certificate=str(nonsense), key=str(key)), "ldap_tls_cert"),
        (TlsFiles(certificate=str(certificate), key=str(other)), "ldap_tls_cert"),
    ):
        with pytest.raises(Failure) as told:
            check_files(files)
        assert told.value.option == option
