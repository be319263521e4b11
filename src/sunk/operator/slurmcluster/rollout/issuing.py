"""Make a certificate for the hook API, with a CA that signs it and nothing else ever again."""

from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

from sunk.operator.slurmcluster.rollout.certificaterule import CA_LIFE, LIFE

_SKEW: Final = timedelta(hours=1)
"""Clocks of Nodes may be behind ours by this much."""


class NewCertificate(Struct, frozen=True):
    """As PEM."""

    certificate: str
    key: str
    ca: str
    not_after: datetime


def issue(names: tuple[str, ...], *, now: datetime) -> NewCertificate:
    """A certificate for these DNS names, the first of which is its common name. The key of its CA is forgotten here."""
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    begin, end = now.replace(microsecond=0) - _SKEW, now.replace(microsecond=0) + LIFE
    issuer = _name(f"CA of {names[0]}")
    ca = (
        _builder(issuer, issuer, key=ca_key, begin=begin, end=now.replace(microsecond=0) + CA_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    certificate = (
        _builder(_name(names[0]), issuer, key=key, begin=begin, end=end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    return NewCertificate(certificate=_pem(certificate), key=_key_pem(key), ca=_pem(ca), not_after=end)


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
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain).decode()
