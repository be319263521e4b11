"""Certificates of the hook API are believed by those who were given their CA, under the syncer's names, and for a time."""

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError
from tests.unit.operator.slurmcluster.clusters import cluster

from sunk.operator.slurmcluster.rollout.certificaterule import CA_LIFE, LIFE
from sunk.operator.slurmcluster.rollout.certificates import dns_names
from sunk.operator.slurmcluster.rollout.issuing import NewCertificate, issue

NOW = datetime(2027, 3, 1, 12, tzinfo=UTC)
NAMES = dns_names(cluster())


def read(pem: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem.encode())


def verify(made: NewCertificate, name: str, *, at: datetime = NOW, by: NewCertificate | None = None) -> None:
    store = Store([read((by or made).ca)])
    built = PolicyBuilder().store(store).time(at).build_server_verifier(x509.DNSName(name))
    built.verify(read(made.certificate), [])


def test_the_names_are_those_of_the_service() -> None:
    assert NAMES == (
        "slurm-syncer",
        "slurm-syncer.team",
        "slurm-syncer.team.svc",
        "slurm-syncer.team.svc.cluster.local",
    )


def test_it_is_believed_under_each_of_its_names_and_no_other() -> None:
    made = issue(NAMES, now=NOW)
    for name in NAMES:
        verify(made, name)
    with pytest.raises(VerificationError):
        verify(made, "slurm-controller.team.svc")


def test_another_ca_does_not_vouch_for_it() -> None:
    with pytest.raises(VerificationError):
        verify(issue(NAMES, now=NOW), NAMES[2], by=issue(NAMES, now=NOW))


def test_it_lives_for_90_days_and_for_clocks_that_are_a_little_behind() -> None:
    made = issue(NAMES, now=NOW)
    assert made.not_after == read(made.certificate).not_valid_after_utc == NOW + LIFE
    assert read(made.ca).not_valid_after_utc == NOW + CA_LIFE
    verify(made, NAMES[2], at=NOW - timedelta(minutes=30))
    with pytest.raises(VerificationError):
        verify(made, NAMES[2], at=NOW + LIFE + timedelta(minutes=1))


def test_it_serves_and_signs_nothing() -> None:
    made = read(issue(NAMES, now=NOW).certificate)
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    usage = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]


def test_openssl_takes_the_key_for_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder, made = tmp_path_factory.mktemp("tls"), issue(NAMES, now=NOW)
    (folder / "tls.crt").write_text(made.certificate)
    (folder / "tls.key").write_text(made.key)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(folder / "tls.crt", folder / "tls.key")
