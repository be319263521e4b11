"""What Slurm answers when it does not do as told, as exceptions one can match on.

`Unreachable` is the one that differs in kind: it is the lack of an answer, so an order may or may not have been
carried out, and only a fresh read can tell. A slurmctld that dies in the middle of a call shows as what the socket says
of it. Most others are answers; those that may not be one (`final`) concern one order and keep no other from being given.
"""

# ruff: noqa: N818 - `except Unreachable` reads as what happened; a suffix would say "error" twice

import errno as sockets
from typing import Final

NO_CHANGE: Final = 1900
"""SLURM_NO_CHANGE_IN_DATA: the answer to a conditional read, never seen outside."""
ANSWERS: Final = 2000
"""ESLURM_INVALID_PARTITION_NAME, the first number that slurmctld says of a request. Below are those of libslurm itself."""


class SlurmError(Exception):
    """Slurm refused. `asked` is the request in words, `name` Slurm's own name of the number."""

    def __init__(self, errno: int, *, asked: str, text: str = "", name: str = "") -> None:
        super().__init__(f"{asked}: {text or 'no explanation'} ({name or 'Slurm error'} {errno})")
        self.errno: Final = errno
        self.name: Final = name
        self.text: Final = text
        self.asked: Final = asked

    @property
    def final(self) -> bool:
        """Whether slurmctld itself refused this order, and would again.

        SLURM_ERROR (-1) and an unexpected message (1000) are no word about it.
        """
        return self.errno >= ANSWERS and not isinstance(self, Unreachable | Unauthenticated)


class Unreachable(SlurmError):
    """No answer of slurmctld. Whether an order was carried out is unknown until Slurm is read again."""


class Unauthenticated(SlurmError):
    """slurmctld does not believe who we are: another key, a clock that is off, or an expired token."""


class Denied(SlurmError):
    """slurmctld knows us and says no."""


class UnknownName(SlurmError):
    """At least one node of those named does not exist. Nothing can be said of the others."""


class Busy(SlurmError):
    """A job is on the node."""


class InvalidState(SlurmError):
    """The node is in a state from which there is no way to the one asked for."""


class InvalidFeature(SlurmError):
    """Features that the node cannot have."""


class TooLong(SlurmError):
    """A path, script or other text of a job is longer than Slurm takes; it does not say which."""


class InvalidJob(SlurmError):
    """There is no such job, or no longer."""


class AlreadyDone(InvalidJob):
    """The job has ended, or is about to."""


class Pending(SlurmError):
    """The job has not started."""


class Transition(SlurmError):
    """The job is just starting or completing: repeat the order a moment later."""


class JobsRunning(SlurmError):
    """Jobs that have not ended are in the association that is to be removed."""


class NotBatch(SlurmError):
    """Only a job with a script can do that."""


_SOCKETS: Final = (
    sockets.EPIPE,
    sockets.ENETUNREACH,
    sockets.ECONNABORTED,
    sockets.ECONNRESET,
    sockets.ETIMEDOUT,
    sockets.ECONNREFUSED,
    sockets.EHOSTUNREACH,
)
"""libslurm gives the error of a socket as it is if a poll finds it."""

_KINDS: Final[dict[int, type[SlurmError]]] = {
    **dict.fromkeys((1001, 1002, 1003, 1004, *range(1800, 1806)), Unreachable),
    **dict.fromkeys((1007, 6000, 6001), Unauthenticated),
    **dict.fromkeys((2002, 2010), Denied),
    2012: TooLong,
    2016: Busy,
    2017: InvalidJob,
    2018: UnknownName,
    2020: Transition,
    2021: AlreadyDone,
    2024: Pending,
    **dict.fromkeys((2028, 2180), InvalidState),  # as 24.11 and as 26.05 say it
    2029: InvalidFeature,
    2039: NotBatch,
    # slurmdbd without its database, or without the connection to it; and what it says of associations.
    **dict.fromkeys((7000, 7008), Unreachable),
    7001: JobsRunning,
    # Half an answer, none in time, and a connection that was closed before one came.
    **dict.fromkeys((5003, 5004, 5005, *_SOCKETS), Unreachable),
}


def refusal(errno: int, *, asked: str, text: str = "", name: str = "") -> SlurmError:
    return _KINDS.get(errno, SlurmError)(errno, asked=asked, text=text, name=name)
