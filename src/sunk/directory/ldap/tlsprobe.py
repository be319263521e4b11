"""Say in words why a server cannot be reached or TLS with it fails.

libldap says "Can't contact LDAP server" to most of it: Debian's speaks GnuTLS, which keeps its reasons to itself. So after such
a failure, Python's own ssl connects in the same way and is asked. Its word is only an explanation: whether a server is
trusted is libldap's decision alone.
"""

import socket
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from sunk.directory.failure import Failure
from sunk.directory.ldap.search import SYSTEM_CA, Connection, TlsFiles
from sunk.model.contract.people import INVALID, REFUSED, UNREACHABLE

START_TLS: Final = bytes.fromhex("301d02010177188016") + b"1.3.6.1.4.1.1466.20037"
"""The extended request of RFC 4511, 4.14.1, as message 1."""
_ANSWER: Final = 0x78
"""Tag of an extended response."""
_RESULT: Final = bytes((0x0A, 0x01))
_PORTS: Final = {"ldap": 389, "ldaps": 636}
_GLANCE: Final = 4096
_LATE_ALERT: Final = 1.0
"""Seconds in which a server that misses our certificate says so: with TLS 1.3 the handshake is over by then."""
_ADD_CA: Final = "put the certificate of its CA into the key ca.crt of the Secret in ldapsCert"
_UNTRUSTED: Final = frozenset({2, 18, 19, 20, 21})
_MISMATCH: Final = frozenset({62, 64})
_NOT_YET, _EXPIRED = 9, 10
_WITHOUT_OURS: Final = frozenset({"WRONG_VERSION_NUMBER", "CERTIFICATE_REQUIRED"})
"""What a server may say to somebody without a certificate."""
_ALERTS: Final = (
    (
        *("WRONG_VERSION_NUMBER", "ldap_uri"),
        "what listens there does not speak TLS: for port 389 use ldap:// with StartTLS",
    ),
    (
        *("CERTIFICATE_REQUIRED", "ldap_tls_cert"),
        "the server wants a client certificate: name a Secret with tls.crt and tls.key in ldapsCert",
    ),
    ("CERTIFICATE_EXPIRED", "ldap_tls_cert", "the client certificate has expired: renew it"),
    ("UNKNOWN_CA", "ldap_tls_cert", "the server does not know the CA of the client certificate"),
)


class Diagnosis(Struct, frozen=True):
    """What is wrong; `option` is what to blame, as sssd calls it."""

    state: str
    option: str
    words: str


def address(uri: str) -> tuple[str, int]:
    parts = urlsplit(uri)
    return parts.hostname or "", parts.port or _PORTS[parts.scheme]


def diagnose(connection: Connection) -> Diagnosis | None:
    """Try it, for at most a few times the network timeout. None: nothing is wrong now. Blocks; call it in a thread."""
    host, port = address(connection.uri)
    try:
        with socket.create_connection((host, port), timeout=connection.network_timeout) as plain:
            return _diagnose_tls(plain, connection, host=host) if connection.is_encrypted else None
    except socket.gaierror:
        return Diagnosis(UNREACHABLE, "ldap_uri", f"the name {host} cannot be resolved")
    except ConnectionRefusedError:
        return Diagnosis(UNREACHABLE, "ldap_uri", f"nobody listens on port {port} of {host} (connection refused)")
    except TimeoutError:
        return Diagnosis(UNREACHABLE, "ldap_uri", f"{host} does not answer on port {port}: check address and firewalls")
    except OSError as error:
        words = f"no connection to port {port} of {host} ({error.strerror or type(error).__name__})"
        return Diagnosis(UNREACHABLE, "ldap_uri", words)


def _diagnose_tls(plain: socket.socket, connection: Connection, *, host: str) -> Diagnosis | None:
    if connection.uri.startswith("ldap://") and (refused := _start(plain)):
        return refused
    try:
        with context(connection.tls).wrap_socket(plain, server_hostname=host) as encrypted:
            encrypted.settimeout(_LATE_ALERT)
            with suppress(TimeoutError):
                encrypted.recv(1)
    except ssl.SSLCertVerificationError as error:
        return _distrust(error, host=host)
    except ssl.SSLError as error:
        return _alert(error, has_certificate=bool(connection.tls.certificate))
    except TimeoutError:
        return Diagnosis(UNREACHABLE, "ldap_uri", "the server does not answer the TLS handshake")
    except OSError:
        return _hung_up(has_certificate=bool(connection.tls.certificate))
    return None


def _start(plain: socket.socket) -> Diagnosis | None:
    plain.sendall(START_TLS)
    reply = plain.recv(_GLANCE)
    if not reply:
        return Diagnosis(UNREACHABLE, "ldap_uri", "the server hangs up when asked for StartTLS")
    _, found, rest = reply.partition(bytes((_ANSWER,)))
    _, result, code = rest.partition(_RESULT)
    if not found or not result or not code:
        return Diagnosis(UNREACHABLE, "ldap_uri", "what listens there is no LDAP server")
    if code[0]:
        words = "the server has no StartTLS: use ldaps:// in ldapUri, or set startTLS to false to do without encryption"
        return Diagnosis(REFUSED, "ldap_id_use_start_tls", words)
    return None


def context(files: TlsFiles) -> ssl.SSLContext:
    """As libldap checks it: the CA in ca.crt or those of the system, and the host name."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if files.ca or Path(SYSTEM_CA).exists():
        made.load_verify_locations(cafile=files.ca or SYSTEM_CA)
    if files.certificate:
        made.load_cert_chain(files.certificate, files.key, password=b"")
    return made


def check_files(files: TlsFiles) -> None:
    """Refuse files that cannot be used. OpenSSL says which; libldap would only say that TLS fails."""
    if files.ca:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=files.ca)
        except (OSError, ValueError) as error:
            words = f"the CA in {files.ca} is no readable certificate in PEM form ({_reason(error)})"
            raise Failure(INVALID, words, option="ldap_tls_cacert") from error
    if files.certificate:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(files.certificate, files.key, password=b"")
        except (OSError, ValueError) as error:
            words = f"{files.certificate} and {files.key} are no readable certificate and key in PEM form that belong together ({_reason(error)})"
            raise Failure(INVALID, words, option="ldap_tls_cert") from error


def _distrust(error: ssl.SSLCertVerificationError, *, host: str) -> Diagnosis:
    code = error.verify_code
    if code == _EXPIRED:
        return Diagnosis(REFUSED, "ldap_uri", "the certificate of the server has expired: renew it there")
    if code == _NOT_YET:
        return Diagnosis(REFUSED, "ldap_uri", "the certificate of the server is not valid yet: check the clocks")
    if code in _MISMATCH:
        words = f"the certificate of the server is for another host name than {host}: use one of its names in ldapUri"
        return Diagnosis(REFUSED, "ldap_uri", words)
    if code in _UNTRUSTED:
        return Diagnosis(
            REFUSED, "ldap_tls_cacert", f"the certificate of the server is signed by an unknown CA: {_ADD_CA}"
        )
    return Diagnosis(REFUSED, "ldap_uri", f"the certificate of the server is not trusted ({error.verify_message})")


def _alert(error: ssl.SSLError, *, has_certificate: bool) -> Diagnosis:
    reason = error.reason or ""
    for part, option, words in _ALERTS:
        if part in reason and (has_certificate or part in _WITHOUT_OURS):
            return Diagnosis(REFUSED, option, words)
    if "CERTIFICATE" in reason and has_certificate:
        return Diagnosis(REFUSED, "ldap_tls_cert", f"the server refuses the client certificate ({_reason(error)})")
    if "HANDSHAKE_FAILURE" in reason or "EOF" in reason:
        return _hung_up(has_certificate=has_certificate)
    return Diagnosis(REFUSED, "ldap_uri", f"TLS fails ({_reason(error)})")


def _hung_up(*, has_certificate: bool) -> Diagnosis:
    if has_certificate:
        words = "the server breaks off the TLS handshake: it may refuse the client certificate"
        return Diagnosis(REFUSED, "ldap_tls_cert", words)
    words = "the server breaks off the TLS handshake: it may want a client certificate (ldapsCert)"
    return Diagnosis(REFUSED, "ldap_tls_cert", words)


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
