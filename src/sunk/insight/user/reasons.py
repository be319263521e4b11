"""Why a job waits: Slurm's words in plain ones."""

from typing import Final

_WORDS: Final = {
    "None": "Slurm has not looked at it yet",
    "Priority": "other jobs come first",
    "Resources": "waits for nodes to become free",
    "Dependency": "waits for another job",
    "DependencyNeverSatisfied": "waits for a job that has failed, and will never start",
    "BeginTime": "is to start later",
    "JobHeldUser": "held by the user (scontrol release)",
    "JobHeldAdmin": "held by an administrator (scontrol release)",
    "JobHoldMaxRequeue": "has failed too often and is held (scontrol release)",
    "JobArrayTaskLimit": "as many tasks of its array run as the user allows",
    "Licenses": "waits for a license",
    "ReqNodeNotAvail": "a node that it names is not available",
    "Reservation": "waits for its reservation",
    "PartitionDown": "its partition is down",
    "PartitionInactive": "its partition takes no jobs",
    "PartitionNodeLimit": "wants more nodes than its partition allows",
    "PartitionTimeLimit": "wants more time than its partition allows",
    "BadConstraints": "no node has what it asks for",
    "InvalidAccount": "its account does not exist any more, or the user has left it",
    "InvalidQOS": "its QOS does not exist any more, or the user may not use it",
    "AccountNotAllowed": "its partition is not for its account",
    "QOSNotAllowed": "its partition or account does not allow its QOS",
    "AccountingPolicy": "an accounting policy holds it back",
    "WaitingForScheduling": "Slurm has not looked at it yet",
    "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions": (
        "its nodes are down, drained or reserved"
    ),
}
_BEGINNINGS: Final = (
    ("Assoc", "a limit of its association or of an account above it is reached (sacctmgr show associations)"),
    ("QOS", "a limit of its QOS is reached (sacctmgr show qos)"),
    ("MaxMem", "wants more memory than is allowed"),
    ("Part", "its partition does not allow it"),
    ("ReqNodeNotAvail", "a node that it names is not available"),
    ("JobHeld", "held"),
)


def told_of(reason: str) -> str:
    word = reason.strip("()")
    if word in _WORDS:
        return _WORDS[word]
    key = word.replace(" ", "_")
    return _WORDS.get(key) or next(
        (text for beginning, text in _BEGINNINGS if word.startswith(beginning)), "see `scontrol show job`"
    )
