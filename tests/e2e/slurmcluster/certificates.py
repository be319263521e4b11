"""A certificate authority for tests: certificates of servers and clients, good ones and bad ones."""

from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

DAY: Final = timedelta(days=1)


class Certificate(Struct, frozen=True):
    """As PEM, with the certificate of whoever has signed it."""

    certificate: str
    key: str
    ca: str

    def secret(self) -> dict[str, str]:
        """The keys that SUNK and the image of the server look for."""
        return {"tls.crt": self.certificate, "tls.key": self.key, "ca.crt": self.ca}


class Authority:
    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        begin, end = datetime.now(UTC) - 90 * DAY, datetime.now(UTC) + 90 * DAY
        made = _builder(self._name, self._name, key=self._key, begin=begin, end=end).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self.ca: Final = _pem(made.sign(self._key, hashes.SHA256()))

    def issue(self, name: str, *, expired: bool = False) -> Certificate:
        """For a server, or a client, of this name; it may be past its end since yesterday."""
        key = ec.generate_private_key(ec.SECP256R1())
        end = datetime.now(UTC) + (-DAY if expired else 30 * DAY)
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        made = (
            _builder(_name(name), self._name, key=key, begin=datetime.now(UTC) - 60 * DAY, end=end)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return Certificate(_pem(made), key=secret.decode(), ca=self.ca)


def _builder(
    subject: x509.Name, issuer: x509.Name, *, key: ec.EllipticCurvePrivateKey, begin: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
