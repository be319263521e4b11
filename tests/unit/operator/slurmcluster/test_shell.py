"""Shell that runs in Pods: its files name the folders, files and variables that the Pods have.

They stand there as literals. In the environment they would be part of the Pod, and every daemon would start again.
"""

from typing import Any

from tests.unit.operator.slurmcluster.clusters import built, cluster, container, pod

from sunk.model.contract import hooks
from sunk.operator.slurmcluster.compute import scripts
from sunk.operator.slurmcluster.slurmconf.conf import ETC, SCRIPTS

ENFORCED = {"accounting": {"enforce": "limits"}}


def script(container: dict[str, Any]) -> str:
    return str(container["command"][-1])


def mounts(container: dict[str, Any]) -> dict[str, str]:
    return {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}


def test_keys_are_copied_between_the_folders_that_are_mounted() -> None:
    (keys, *_) = pod(cluster(), "Deployment", "slurm-controller")["initContainers"]
    assert all(f"{folder}/*" in script(keys) for folder in mounts(keys).values())


def test_slurmdbd_writes_its_file_from_what_is_mounted() -> None:
    slurmdbd = container(cluster(), "Deployment", "slurm-accounting")
    folders = mounts(slurmdbd)
    assert f"{folders['password']}/password" in script(slurmdbd)
    assert f"{folders['template']}/slurmdbd.conf" in script(slurmdbd)
    assert f"> {ETC}/slurmdbd.conf" in script(slurmdbd)


def test_slurmctld_waits_for_accounting_by_its_state_and_its_variables() -> None:
    (_, waiting) = pod(cluster(ENFORCED), "Deployment", "slurm-controller")["initContainers"]
    assert f"{mounts(waiting)['state']}/" in script(waiting)
    assert all(f"${variable['name']}" in script(waiting) for variable in waiting["env"])


def test_scripts_of_compute_pods_find_each_other_and_their_variables() -> None:
    around_jobs = scripts.around_jobs(cluster())
    reboot = scripts.around_jobs(cluster({"syncer": {"nodePermissions": {"enabled": True}}}))["reboot"]
    assert f". {SCRIPTS}/hooks\n" in reboot
    assert f"{scripts.POD_NAME}=" in reboot
    assert f"{scripts.PRELOCK} || exit\n" in around_jobs["prolog"]
    assert f". {SCRIPTS}/hooks || exit 1\n" in around_jobs["prelock"]
    assert f". {SCRIPTS}/hook-settings\n" in around_jobs["hooks"]
    assert f"hooks={hooks.FOLDER}\n" in around_jobs["hooks"]
    assert f'"$hooks/{hooks.TOKEN}"' in around_jobs["hooks"]
    assert f'"$hooks/{hooks.CA}"' in around_jobs["hooks"]
    assert f" {scripts.SICK} " in around_jobs["prelock"]
    settings = [line.partition("=")[0] for line in around_jobs["hook-settings"].splitlines()]
    assert all(
        f"${name}" in "".join(around_jobs.values()) or f" {name} " in around_jobs["prelock"] for name in settings
    )
    assert f"exec {scripts.SICK} " in around_jobs["unkillable"]
    assert f'"${scripts.POD_NAME}"' in around_jobs["leave"]
    services = built(cluster(), "ConfigMap", "slurm-compute-s6")["data"]
    assert f"in ${scripts.JOB_ENV};" in services[f"{scripts.ENVIRONMENT}.script"]
