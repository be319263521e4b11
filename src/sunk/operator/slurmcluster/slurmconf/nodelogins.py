"""What Slurm has to do so that people may log in to nodes on which they have a job (`compute.ssh`).

- PrologFlags=Contain: each job gets a step of its own from its start to its end, even if it never starts another. By it
  pam_slurm_adopt knows who has a job here; without it, nobody who has only allocated a node would get in.
- Prolog and Epilog are ours: they end what people have left behind (`compute/sessions.sh`), and run theirs.
- Port 22 has to be free, which it is not on the network of a Node.

Slurm complains at its start that Contain without proctrack/cgroup is of no use to pam_slurm_adopt. That is half true: who
has no job is kept out all the same. Only the limits of the job do not hold for a login.
"""

from collections.abc import Iterable
from typing import Final

from sunk.model.refusal import Refusal
from sunk.operator.slurmcluster.resolve import ResolvedCluster
from sunk.operator.slurmcluster.slurmconf.lines import values

CONTAIN: Final = "Contain"
FLAG: Final = "PrologFlags"
_SCRIPTS: Final = {"prolog": "slurmConfig.slurmd.prologConfigMap", "epilog": "slurmConfig.slurmd.epilogConfigMap"}


def check(cluster: ResolvedCluster, lines: Iterable[str], *, at: str) -> None:
    """Refuse what would keep people out, or in."""
    for definition in cluster.definitions:
        if definition.host_network:
            raise Refusal(
                f"{definition.place}.hostNetwork: compute.ssh.enabled runs sshd on port 22, which on the network of a Node "
                "belongs to the Node itself. Disable one of them."
            )
    for line in lines:
        for key, text in values(line):
            if key.lower() == FLAG.lower() and "nohold" in map(str.strip, text.lower().split(",")):
                raise Refusal(
                    f"{at}: {key}={text} must not contain NoHold with compute.ssh.enabled: Slurm does not take it together "
                    f"with {CONTAIN}, which logins to nodes need."
                )
            if instead := _SCRIPTS.get(key.lower()):
                raise Refusal(
                    f"{at}: {key} cannot be set with compute.ssh.enabled: SUNK's own ends the sessions of users without a job, and "
                    f"runs the scripts of {instead}. Put yours there."
                )
