"""Whether somebody gets in by ssh, in plain words, and what to do about it."""

from collections.abc import Iterator
from typing import Final

from sunk.insight.user.person import VALUES, Person
from sunk.insight.user.situation import BY_CONFIG_MAP, LOGIN, Reason, Situation, Verdict, name_of, verdict
from sunk.insight.user.unknown import skipped, unknown
from sunk.model.cluster.directory import Directory
from sunk.model.contract import people

_NO_SHELLS: Final = frozenset({"/usr/sbin/nologin", "/sbin/nologin", "/bin/false", "/usr/bin/false"})


def login(seen: Situation) -> Verdict:
    """Whether the person gets in by ssh."""
    if not seen.spec.login.enabled or not seen.spec.login.replicas:
        return verdict([Reason("the cluster has no login Pods", refuses=True, advice="Set login.enabled: true")])
    if seen.person is None:
        return unknown(seen)
    return verdict(
        [*_account(seen.person), *_namesakes(seen), *_proof(seen, seen.person), *_login_pods(seen, seen.person)],
        blind=not any(pod.known for pod in seen.of(LOGIN)),
    )


def _account(person: Person) -> Iterator[Reason]:
    if person.expired:
        where = f"directory {person.source}" if person.from_directory else "the users of the values"
        yield Reason("the account is locked or has expired", refuses=True, advice=f"Unlock it in {where}")
    if person.shell in _NO_SHELLS:
        yield Reason(f"the shell is {person.shell}, which ends every session", refuses=True)


def _namesakes(seen: Situation) -> Iterator[Reason]:
    for directory, example in skipped(seen):
        yield Reason(f"directory {directory} has an entry of this name too, which is left out: {example}")


def _proof(seen: Situation, person: Person) -> Iterator[Reason]:
    """How somebody could prove to be this person: keys, and a password unless something is in its way."""
    no_password = _no_password(seen, person)
    if person.keys:
        if person.from_directory and no_password:
            yield Reason(f"by key only: {no_password}")
        return
    if no_password:
        yield Reason(
            f"no SSH key is known, and {no_password}. Only a key in {person.home}/.ssh/authorized_keys would do",
            refuses=True,
            advice=_give_key(person, seen),
        )
    else:
        yield Reason("by password only: no SSH key is known")


def _no_password(seen: Situation, person: Person) -> str:
    """Why a password does not help; empty if it does."""
    if person.source == VALUES:
        return "users of the values have no password"
    if not person.source:
        return "it is not known which directory would check a password"
    directory, told = person.source, seen.state_of(person.source)
    if seen.passwords is not None:
        match seen.passwords.get(directory):
            case "plain":
                return f"directory {directory} is not sent passwords, because its connection is unencrypted (startTLS: false)"
            case None:
                return f"logins are not told where directory {directory} is: ldapUri has to be in the values"
    if told is not None and told.state == people.UNREACHABLE:
        return f"directory {directory} is {told.state}, so it cannot check a password now"
    return ""


def _give_key(person: Person, seen: Situation) -> str:
    if person.source == VALUES:
        return f"Add a key: users.authorizedKeys.{person.name}"
    found = next((one for one in seen.directories if name_of(one) == person.source), Directory())
    return f"Add a key to the entry in directory {person.source}, attribute {found.ssh_key_attr or 'sshPublicKey'}"


def _login_pods(seen: Situation, person: Person) -> Iterator[Reason]:
    pods = seen.of(LOGIN)
    if pods and all(pod.known is None for pod in pods):
        yield Reason(f"no login Pod could be asked: {pods[0].trouble}")
    unaware = [pod.pod for pod in pods if pod.known is False]
    if unaware:
        yield Reason(
            f"not known yet in {', '.join(unaware)}. {BY_CONFIG_MAP}",
            refuses=not any(pod.known for pod in pods),
            advice=f"If it stays so: kubectl exec {unaware[0]} -c sshd -- getent passwd {person.name}",
        )
    other = {pod.uid for pod in pods if pod.known and pod.uid != person.uid}
    if other:
        shown = ", ".join(map(str, sorted(filter(None, other))))
        yield Reason(f"a login Pod has another uid for {person.name}: {shown} instead of {person.uid}. {BY_CONFIG_MAP}")
    if any(pod.has_shell is False for pod in pods):
        yield Reason(
            f"the image of the login Pods has no {person.shell}",
            refuses=True,
            advice="Set overrideShell of the directory, or add the shell to the image (EXTRA_PACKAGES)",
        )
