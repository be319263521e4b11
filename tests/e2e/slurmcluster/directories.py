"""Real LDAP servers in Pods (slapd, image `directory`), their people, and how a Slurm cluster is told of them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import yaml
from msgspec import Struct
from tests.conftest import Kubectl
from tests.e2e.slurmcluster.release import FIRST
from tests.waiting import eventually

from sunk.local.certificates import Certificate

LDAP, LDAPS = 1389, 1636
GROUP: Final = 64033
"""The user of the image, which reads the certificate and writes to the volume."""
PASSWORD: Final = "bind: me?"  # noqa: S105 - of a server that lives for a test
NOBODY: Final = {"app": "nobody"}


# People, as LDIF


def entry(dn: str, **attributes: str | Sequence[str]) -> str:
    lines = [f"dn: {dn}"]
    for name, value in attributes.items():
        lines += [f"{name}: {each}" for each in ([value] if isinstance(value, str) else value)]
    return "\n".join(lines) + "\n"


def unit(name: str, *, suffix: str) -> str:
    return entry(f"ou={name},{suffix}", objectClass="organizationalUnit", ou=name)


def person(  # noqa: PLR0913 - one for each thing that an entry has
    name: str,
    *,
    suffix: str,
    uid: int,
    gid: int,
    password: str = "",
    keys: Sequence[str] = (),
    **more: str,
) -> str:
    classes = ["inetOrgPerson", "posixAccount", "shadowAccount", *(["ldapPublicKey"] if keys else [])]
    given: dict[str, str | Sequence[str]] = {
        "objectClass": classes,
        "uid": name,
        "cn": name,
        "sn": name,
        "uidNumber": str(uid),
        "gidNumber": str(gid),
        "homeDirectory": f"/home/{name}",
        "loginShell": "/bin/bash",
    }
    given |= {"userPassword": password} if password else {}
    given |= {"sshPublicKey": [key.strip() for key in keys]} if keys else {}
    return entry(dn_of(name, suffix=suffix), **(given | more))


def dn_of(name: str, *, suffix: str) -> str:
    return f"uid={name},ou=people,{suffix}"


def group(name: str, *, suffix: str, gid: int, members: Sequence[str] = ()) -> str:
    """Of rfc2307: members are names."""
    given: dict[str, str | Sequence[str]] = {"objectClass": "posixGroup", "cn": name, "gidNumber": str(gid)}
    return entry(f"cn={name},ou=groups,{suffix}", **given, **({"memberUid": members} if members else {}))


def group_of_entries(name: str, *, suffix: str, gid: int, members: Sequence[str]) -> str:
    """Of rfc2307bis: members are DNs."""
    return entry(
        f"cn={name},ou=groups,{suffix}",
        objectClass=["groupOfNames", "posixGroup"],
        cn=name,
        gidNumber=str(gid),
        member=[dn_of(one, suffix=suffix) for one in members],
    )


# Servers


class Server(Struct, frozen=True):
    """One slapd, which people of the same namespace reach by its name."""

    kubectl: Kubectl
    name: str
    suffix: str
    certificate: Certificate
    settings: dict[str, str] = {}
    """More of the environment of the image."""

    @property
    def admin(self) -> str:
        return f"cn=admin,{self.suffix}"

    def start(self, *ldif: str) -> None:
        whole = "\n".join((unit("people", suffix=self.suffix), unit("groups", suffix=self.suffix), *ldif))
        self._apply("v1", "ConfigMap", f"{self.name}-ldif", data={"people.ldif": whole})
        self.present(self.certificate)
        self._apply("apps/v1", "Deployment", self.name, spec=self._deployment())
        self._apply("v1", "Service", self.name, spec=self._service({"app": self.name}))

    def present(self, certificate: Certificate) -> None:
        """Have it show this certificate from its next start on."""
        self._apply("v1", "Secret", f"{self.name}-tls", stringData=certificate.secret())

    def restart(self) -> None:
        """With a Secret that was changed; what was modified since its first start is lost."""
        self.kubectl("rollout", "restart", f"deployment/{self.name}")
        self.ready()

    def ready(self) -> None:
        self.kubectl("rollout", "status", f"deployment/{self.name}", "--timeout=120s")

    def remove(self) -> None:
        for kind in (
            f"deployment/{self.name}",
            f"service/{self.name}",
            f"secret/{self.name}-tls",
            f"configmap/{self.name}-ldif",
        ):
            self.kubectl("delete", kind, "--ignore-not-found", "--wait=false")

    @contextmanager
    def down(self) -> Iterator[None]:
        """Let nobody reach it: connections are refused, as by a machine on which it does not run."""
        self._apply("v1", "Service", self.name, spec=self._service(NOBODY))
        # Connections that are open go on; the agent opens one for each search.
        eventually(lambda: not self._endpoints())
        try:
            yield
        finally:
            self._apply("v1", "Service", self.name, spec=self._service({"app": self.name}))
            eventually(lambda: bool(self._endpoints()))

    def modify(self, ldif: str) -> None:
        """As its administrator, from its own Pod."""
        where = ("ldapmodify", "-x", "-H", f"ldap://127.0.0.1:{LDAP}", "-D", self.admin, "-w", PASSWORD)
        self.kubectl("exec", "-i", f"deployment/{self.name}", "--", *where, stdin=ldif)

    def searches(self) -> int:
        """How many searches it has answered since it started."""
        return self.kubectl("logs", f"deployment/{self.name}", "--tail=-1").count(" SRCH base=")

    def _endpoints(self) -> str:
        wanted = ("-l", f"kubernetes.io/service-name={self.name}")
        return self.kubectl(
            "get", "endpointslices", *wanted, "-o", "jsonpath={.items[*].endpoints[*].addresses}"
        ).strip()

    def _apply(self, version: str, kind: str, name: str, **body: Any) -> None:
        made = {"apiVersion": version, "kind": kind, "metadata": {"name": name}} | body
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=yaml.safe_dump(made))

    def _service(self, selector: dict[str, str]) -> dict[str, Any]:
        ports = [{"name": name, "port": port} for name, port in (("ldap", LDAP), ("ldaps", LDAPS))]
        return {"selector": selector, "ports": ports}

    def _deployment(self) -> dict[str, Any]:
        environment = {"SUFFIX": self.suffix, "ADMIN_PASSWORD": PASSWORD} | self.settings
        mounts = {"tls": "/etc/sunk/tls", "ldif": "/etc/sunk/ldif", "data": "/var/lib/ldap", "run": "/run/slapd"}
        container = {
            "name": "slapd",
            "image": "localhost/directory:24.11",
            "imagePullPolicy": "Never",
            "env": [{"name": name, "value": value} for name, value in environment.items()],
            "readinessProbe": {"tcpSocket": {"port": LDAP}, "periodSeconds": 1},
            "volumeMounts": [{"name": name, "mountPath": path} for name, path in mounts.items()],
        }
        volumes = [
            {"name": "tls", "secret": {"secretName": f"{self.name}-tls", "defaultMode": 0o440}},
            {"name": "ldif", "configMap": {"name": f"{self.name}-ldif"}},
            {"name": "data", "emptyDir": {}},
            {"name": "run", "emptyDir": {}},
        ]
        spec = {
            "terminationGracePeriodSeconds": 1,
            "nodeSelector": {"kubernetes.io/hostname": FIRST},
            "securityContext": {"fsGroup": GROUP},
            "containers": [container],
            "volumes": volumes,
        }
        labels = {"app": self.name}
        return {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        }

    # What a cluster is told

    def secrets(self, *, bind: str = PASSWORD, client: Certificate | None = None, ca: str = "") -> None:
        """Those that values name: `<name>-bind` with a snippet, `<name>-trust` with the CA and what a client shows."""
        snippet = f"[domain/{self.name}]\nldap_default_authtok = {bind}\n"
        self._apply("v1", "Secret", f"{self.name}-bind", stringData={"bind.conf": snippet})
        trust = client.secret() if client else {}
        self._apply("v1", "Secret", f"{self.name}-trust", stringData=trust | {"ca.crt": ca or self.certificate.ca})


def reached_by_tls(name: str, *, suffix: str, **more: Any) -> dict[str, Any]:
    """A directory of values: LDAPS, with a bind DN and a snippet in a Secret."""
    user = {"bindDn": f"cn=admin,{suffix}", "searchBase": suffix, "existingSecret": f"{name}-bind"}
    return {
        "name": name,
        "ldapUri": f"ldaps://{name}:{LDAPS}",
        "ldapsCert": f"{name}-trust",
        "user": user | more.pop("user", {}),
        "schema": "rfc2307",
    } | more


def reached_by_certificate(name: str, *, suffix: str, **more: Any) -> dict[str, Any]:
    """As Google's: a client certificate and no bind DN; here with StartTLS."""
    return {
        "name": name,
        "ldapUri": f"ldap://{name}:{LDAP}",
        "ldapsCert": f"{name}-trust",
        "user": {"searchBase": suffix} | more.pop("user", {}),
        "schema": "rfc2307bis",
    } | more
