"""A directory of the values for a slapd of the tests, with the Secrets that the agent finds as files."""

from pathlib import Path
from typing import Any

from msgspec import structs

from sunk.directory.domain.settings import Values
from sunk.directory.reader import Reader
from sunk.directory.users.records import Content
from sunk.local.directory import BASE, PASSWORD, READER, DirectoryServer
from sunk.model.cluster.directory import Directory, DirectoryUser


def values(server: DirectoryServer, name: str = "corp", **changes: Any) -> Directory:
    user = {"bind_dn": READER, "search_base": BASE, "existing_secret": f"{name}-secret"} | changes.pop("user", {})
    made = Directory(name=name, ldap_uri=server.uri, ldaps_cert=f"{name}-tls", user=DirectoryUser(**user))
    return structs.replace(made, **changes)


def secrets(server: DirectoryServer, folder: Path, name: str = "corp", *, password: str = PASSWORD) -> Path:
    """Write the Secrets of a directory: the account's password, and the CA of the server."""
    for kind in ("snippets", "tls"):
        (folder / name / kind).mkdir(parents=True, exist_ok=True)
    snippet = f"[domain/{name}]\nldap_default_authtok = {password}\n"
    (folder / name / "snippets" / "password.conf").write_text(snippet)
    (folder / name / "tls" / "ca.crt").write_bytes(server.authority.certificate.read_bytes())
    return folder


def client_certificate(server: DirectoryServer, folder: Path, name: str = "corp") -> None:
    certificate, key = server.authority.client("agent")
    (folder / name / "tls" / "tls.crt").write_bytes(certificate.read_bytes())
    (folder / name / "tls" / "tls.key").write_bytes(key.read_bytes())


def reader(directory: Directory, folder: Path, *, content: Content | None = None) -> Reader:
    return Reader(Values(directory, 0), folder=folder, interval=5.0, changed=lambda: None, content=content or Content())


async def read(directory: Directory, folder: Path) -> Reader:
    made = reader(directory, folder)
    await made.once()
    return made
