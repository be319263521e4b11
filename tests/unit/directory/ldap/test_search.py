"""The child process: what it is told, how it ends, and what is believed. Small scripts play the program, not the directory."""

import asyncio
import os
import time
from pathlib import Path

import pytest
from msgspec import structs

from sunk.directory.failure import Failure
from sunk.directory.ldap import search as searching
from sunk.directory.ldap.ldif import Entry
from sunk.directory.ldap.search import Connection, Query, TlsFiles, command, environment, search
from sunk.model.contract.people import INVALID, SUSPECT, UNREACHABLE

QUERY = Query("dc=x", "(objectClass=*)", ("uid",))
CONNECTION = Connection("ldap://x", start_tls=True, bind_dn="cn=agent", password=b"s3cret\xff")
IMPATIENT = structs.replace(CONNECTION, network_timeout=4, search_timeout=4)
ENTRY = "dn: uid=alice,dc=x\\nuid: alice\\n\\n"


def program(tmp_path: Path, text: str) -> str:
    file = tmp_path / "program"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


def lives(pid: Path) -> bool:
    return Path(f"/proc/{pid.read_text().strip()}").exists()


async def entries(tmp_path: Path, text: str, connection: Connection = CONNECTION) -> list[Entry]:
    found: list[Entry] = []
    await search(connection, QUERY, take=found.append, program=program(tmp_path, text))
    return found


def test_the_password_is_neither_on_the_command_line_nor_in_the_environment() -> None:
    line = command(CONNECTION, QUERY, program="ldapsearch", secret=7)
    assert "/dev/fd/7" in line
    assert "-ZZ" in line
    assert "pr=1000/noprompt" in line
    assert not any("s3cret" in word for word in (*line, *environment(CONNECTION).values()))
    assert "s3cret" not in repr(CONNECTION)


def test_the_environment_names_whom_to_trust_and_takes_nothing_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LDAPTLS_REQCERT", "never")
    monkeypatch.setenv("LDAPURI", "ldap://elsewhere")
    plain = environment(CONNECTION)
    assert (plain["LDAPTLS_REQCERT"], plain["LDAPTLS_CACERT"]) == ("demand", searching.SYSTEM_CA)
    assert "LDAPURI" not in plain
    assert "LDAPTLS_CERT" not in plain
    files = TlsFiles(ca="/ca", certificate="/crt", key="/key")
    with_files = environment(Connection("ldaps://x", start_tls=False, tls=files))
    assert {with_files[f"LDAPTLS_{name}"] for name in ("CACERT", "CERT", "KEY")} == {"/ca", "/crt", "/key"}


def test_a_certificate_binds_by_external_and_nobody_anonymously() -> None:
    external = Connection("ldaps://x", start_tls=False, external=True, page_size=0)
    line = command(external, QUERY, program="ldapsearch", secret=None)
    assert line[line.index("-Y") + 1] == "EXTERNAL"
    assert "-x" not in line
    assert "-E" not in line
    assert "-D" not in command(Connection("ldaps://x", start_tls=False), QUERY, program="ldapsearch", secret=None)


async def test_the_program_reads_the_password_from_a_pipe(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    text = f'while [ "$1" != -y ]; do shift; done; cat "$2" > {seen}; printf "{ENTRY}"'
    (entry,) = await entries(tmp_path, text)
    assert entry.text("uid") == "alice"
    assert seen.read_bytes() == b"s3cret\xff"


async def test_descriptors_do_not_leak(tmp_path: Path) -> None:
    await entries(tmp_path, "exit 0")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - as few calls as possible
    for _ in range(3):
        await entries(tmp_path, "exit 0")
    assert len(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208


async def test_an_empty_password_is_never_sent(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="no password") as told:
        await entries(tmp_path, "exit 0", Connection("ldap://x", start_tls=True, bind_dn="cn=agent"))
    assert told.value.state == INVALID


async def test_a_program_that_is_not_there_is_told_in_words(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="ldap-utils"):
        await search(CONNECTION, QUERY, take=lambda _: None, program=str(tmp_path / "none"))


async def test_a_server_that_hangs_ends_in_time_and_leaves_no_process(tmp_path: Path) -> None:
    began, pid = time.monotonic(), tmp_path / "pid"
    with pytest.raises(Failure, match="in time") as told:
        await entries(tmp_path, f'printf "{ENTRY}"; sleep 1000 & echo $! > {pid}; wait', IMPATIENT)
    assert told.value.state == UNREACHABLE
    assert time.monotonic() - began < 60
    for _ in range(100):
        if not lives(pid):
            return
        await asyncio.sleep(0.05)
    pytest.fail("the child of the program lives on")


async def test_one_that_is_cancelled_leaves_no_process(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    task = asyncio.create_task(entries(tmp_path, f"echo $$ > {pid}; exec sleep 1000"))
    while not pid.exists() or not pid.read_text().strip():
        await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not lives(pid)


async def test_half_an_answer_is_not_believed(tmp_path: Path) -> None:
    with pytest.raises(Failure) as told:
        await entries(tmp_path, f'printf "{ENTRY}"; echo "Size limit exceeded (4)" >&2; exit 4')
    assert told.value.state == SUSPECT
    with pytest.raises(Failure) as told:
        await entries(tmp_path, 'printf "dn: uid=alice,dc=x\\nuid: al"; echo "ldap_result: x (-1)" >&2; exit 255')
    assert told.value.state == UNREACHABLE
    with pytest.raises(Failure) as told:
        await entries(tmp_path, 'printf "dn: uid=alice,dc=x\\nuid: al"')
    assert told.value.state == SUSPECT


async def test_garbage_without_an_end_is_stopped(tmp_path: Path) -> None:
    with pytest.raises(Failure) as told:
        await entries(tmp_path, "yes garbage")
    assert told.value.state == SUSPECT


async def test_many_words_hold_nobody_up(tmp_path: Path) -> None:
    text = (
        f'i=0; while [ $i -lt 3000 ]; do echo "word word word word word word" >&2; i=$((i+1)); done; printf "{ENTRY}"'
    )
    assert len(await entries(tmp_path, text)) == 1


async def test_whoever_takes_entries_may_refuse_more(tmp_path: Path) -> None:
    def refuse(_: Entry) -> None:
        raise Failure(INVALID, "enough", option="ldap_search_base")

    with pytest.raises(Failure, match="enough"):
        await search(CONNECTION, QUERY, take=refuse, program=program(tmp_path, f'printf "{ENTRY}"; exec sleep 1000'))
