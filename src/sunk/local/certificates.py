"""Certificates of servers on this machine that are not part of a cluster: an authority, and what it signs."""

import datetime as dt
import ipaddress
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY: Final = dt.timedelta(days=1)


class Authority:
    """Signs certificates into a folder; each call makes new ones."""

    def __init__(self, folder: Path, *, name: str = "test authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate: Final = folder / "ca.crt"
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
            self._builder(self._name, self._key, lasts=10 * _DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def server(self, *hosts: str, lasts: dt.timedelta | None = None) -> tuple[Path, Path]:
        """Certificate and key for these host names and addresses; one that ends before now has expired."""
        names = [_alternative(host) for host in hosts]
        return self._signed("server", hosts[0], ExtendedKeyUsageOID.SERVER_AUTH, names=names, lasts=lasts or 10 * _DAY)

    def client(self, name: str, *, lasts: dt.timedelta | None = None) -> tuple[Path, Path]:
        return self._signed(f"client-{name}", name, ExtendedKeyUsageOID.CLIENT_AUTH, names=[], lasts=lasts or 10 * _DAY)

    def _signed(
        self,
        file: str,
        subject: str,
        purpose: x509.ObjectIdentifier,
        *,
        names: list[x509.GeneralName],
        lasts: dt.timedelta,
    ) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            self._builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]), key, lasts=lasts)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(issuer, critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate, secret = self._folder / f"{file}.crt", self._folder / f"{file}.key"
        made = builder.sign(self._key, hashes.SHA256())
        certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        secret.write_bytes(private)
        return certificate, secret

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


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
