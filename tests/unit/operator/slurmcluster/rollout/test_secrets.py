"""What is put into Secrets that are made once."""

from base64 import b64decode

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from tests.unit.operator.slurmcluster.clusters import cluster

from sunk.operator.slurmcluster.builders import secrets
from sunk.operator.slurmcluster.rollout.secrets import content


def made(name: str) -> dict[str, bytes]:
    (wanted,) = [one for one in secrets.needed(cluster()) if one.name == name]
    return {key: b64decode(text) for key, text in content(wanted).items()}


def test_host_keys_come_with_the_public_keys_that_belong_to_them() -> None:
    found = made("slurm-ssh-host-keys")
    kinds = {"ssh_host_ed25519_key": ed25519.Ed25519PrivateKey, "ssh_host_rsa_key": rsa.RSAPrivateKey}
    assert set(found) == {f"{name}{end}" for name in kinds for end in ("", ".pub")}
    for name, kind in kinds.items():
        assert found[name].startswith(b"-----BEGIN OPENSSH PRIVATE KEY-----\n")
        key = serialization.load_ssh_private_key(found[name], password=None)
        assert isinstance(key, kind)
        both = (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        assert found[f"{name}.pub"] == key.public_key().public_bytes(*both) + b"\n"
        if isinstance(key, rsa.RSAPrivateKey):
            assert key.key_size == 3072


def test_a_second_cluster_has_other_keys() -> None:
    assert made("slurm-mysql")["password"] != made("slurm-mysql")["password"]
    assert set(made("slurm-auth-slurm")) == {"slurm.key"}
    assert len(made("slurm-auth-slurm")["slurm.key"]) == 1024
