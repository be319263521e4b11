"""Certificates that come late, change, or are broken."""

import asyncio
import logging
import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.unit.service.hooks.serving import certificate, write

from sunk.service.hooks.certificate import PERIOD, ServerCertificate


def test_what_is_missing_is_said_and_waited_for(tmp_path: Path) -> None:
    found = ServerCertificate(tmp_path)
    found.load()
    assert str(tmp_path) in found.unready()
    assert "tls.crt" in found.unready()
    made = certificate()
    (tmp_path / "tls.crt").write_text(made.certificate)
    found.load()
    assert "tls.key" in found.unready()
    (tmp_path / "tls.key").write_text(made.key)
    found.load()
    assert found.unready() == ""
    assert found.expires == made.not_after


def test_files_that_stay_the_same_are_loaded_once_and_a_swap_of_the_link_is_seen(tmp_path: Path) -> None:
    write(tmp_path, certificate())
    found = ServerCertificate(tmp_path)
    for _ in range(3):
        found.load()
    assert found.loads == 1
    write(tmp_path, certificate())
    for _ in range(3):
        found.load()
    assert found.loads == 2


def test_a_broken_pair_keeps_the_last_good_one_and_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good, other = certificate(), certificate()
    write(tmp_path, good)
    found = ServerCertificate(tmp_path)
    found.load()
    encrypted = (
        ec.generate_private_key(ec.SECP256R1())
        .private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
        .decode()
    )
    for text, key in (
        (good.certificate, other.key),
        (other.certificate, ""),
        ("", other.key),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", other.key),
        (other.certificate, encrypted),
    ):
        (tmp_path / "..data").joinpath("tls.crt").write_text(text)
        (tmp_path / "..data").joinpath("tls.key").write_text(key)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                found.load()
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert "the last one stays in use" in caplog.text
        assert found.unready() == ""
        assert found.loads == 1
    write(tmp_path, other)
    found.load()
    assert found.loads == 2


@pytest.mark.looptime
async def test_files_are_looked_at_every_few_seconds(tmp_path: Path) -> None:
    found = ServerCertificate(tmp_path)
    looking = asyncio.create_task(found.run())
    await asyncio.sleep(2 * PERIOD)
    assert found.unready()
    write(tmp_path, certificate())
    await asyncio.sleep(PERIOD + 0.1)
    assert found.loads == 1
    os.utime((tmp_path / "tls.crt").resolve(), ns=(1, 1))
    await asyncio.sleep(PERIOD + 0.1)
    assert found.loads == 2
    looking.cancel()
    await asyncio.wait((looking,))
