"""Certificates of servers and clients that are not part of a cluster: an authority, and what it signs."""

import datetime as dt
import ipaddress
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

_DAY: Final = dt.timedelta(days=1)
LASTS: Final = 10 * _DAY
PAST: Final = -_DAY
"""For one that has expired."""


class Certificate(Struct, frozen=True):
    """As PEM, with the certificate of whoever has signed it."""

    certificate: str
    key: str
    ca: str

    def secret(self) -> dict[str, str]:
        """The keys that SUNK and the image of the server look for."""
        return {"tls.crt": self.certificate, "tls.key": self.key, "ca.crt": self.ca}


class Authority:
    """Signs certificates; each call makes new ones."""

    def __init__(self, name: str = "test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        usage = x509.KeyUsage(
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        made = (
            self._builder(self._name, self._key, lasts=LASTS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.ca: Final = _pem(made)

    def issue(self, *names: str, lasts: dt.timedelta = LASTS) -> Certificate:
        """For a server of these host names and addresses, or for a client of that name."""
        key = ec.generate_private_key(ec.SECP256R1())
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        made = (
            self._builder(_name(names[0]), key, lasts=lasts)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
            .add_extension(issuer, critical=False)
            .add_extension(x509.SubjectAlternativeName(map(_alternative, names)), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return Certificate(_pem(made), key=secret.decode(), ca=self.ca)

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, lasts: dt.timedelta
    ) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 5 * _DAY)
            .not_valid_after(now + lasts)
        )


class FiledAuthority(Authority):
    """Has its own certificate and all that it signs in a folder, for programs that take files."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self.certificate: Final = folder / "ca.crt"
        self.certificate.write_text(self.ca)

    def server(self, *hosts: str, lasts: dt.timedelta = LASTS) -> tuple[Path, Path]:
        """Certificate and key."""
        return self._filed("server", self.issue(*hosts, lasts=lasts))

    def client(self, name: str, *, lasts: dt.timedelta = LASTS) -> tuple[Path, Path]:
        return self._filed(f"client-{name}", self.issue(name, lasts=lasts))

    def _filed(self, file: str, made: Certificate) -> tuple[Path, Path]:
        certificate, key = self._folder / f"{file}.crt", self._folder / f"{file}.key"
        certificate.write_text(made.certificate)
        key.write_text(made.key)
        return certificate, key


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
