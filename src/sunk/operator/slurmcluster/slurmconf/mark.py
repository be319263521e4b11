"""Which configuration Slurm runs with, readable from Slurm itself.

The hash of the configuration stands in it, as a parameter that slurmctld does not know and keeps: `scontrol show
config` shows it, so who asks slurmctld learns what it has really read, and not what lies in a file.

The image counts too. Another slurmctld may refuse what this one takes, so the same files under another image are tried
before they replace anything, and seen in force anew.
"""

from collections.abc import Mapping

from sunk.model.contract.confighash import LINE, PARAMETER
from sunk.operator.slurmcluster.builders.pods import image
from sunk.operator.slurmcluster.slurmconf.conf import SLURM_CONF, fingerprint
from sunk.operator.slurmcluster.view import Cluster


def marked(files: Mapping[str, str], *, cluster: Cluster) -> tuple[dict[str, str], str]:
    """The files with their hash in them, and the hash."""
    found = fingerprint({**files, "image": image(cluster, cluster.spec.controller.image)["image"]})
    lines = files[SLURM_CONF].splitlines()
    # The last line of that name is the one that counts.
    last = max(number for number, line in enumerate(lines) if line.startswith(LINE))
    lines[last] = f"{lines[last]},{PARAMETER}={found}"
    return dict(files) | {SLURM_CONF: "".join(f"{line}\n" for line in lines)}, found
