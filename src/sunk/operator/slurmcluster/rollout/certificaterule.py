"""Which certificate of the hook API is in force, and when another is made: dates in, what to do out.

A certificate comes with a CA of its own, whose key is thrown away once it has signed. So nobody can sign a second one,
and renewal means another CA. Compute Pods believe the CAs of a bundle, which reaches them through their kubelets, and
the order is: into the bundle, then to the syncer. A CA leaves the bundle when its certificate has expired and not before,
because nothing tells us when the last syncer that serves with it has gone.

A certificate is lost if its Secret was deleted. Syncers that run have it still, and those that start later would wait for
it in vain; so it is replaced like one that expires. One that was never published nobody knows: it is dropped.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

LIFE: Final = timedelta(days=90)
RENEWED: Final = LIFE / 3
"""What is left of its life when the next one is made."""
CA_LIFE: Final = timedelta(days=3650)
REACHES_PODS: Final = timedelta(minutes=2)
"""After this long every kubelet has brought a changed ConfigMap into its Pods."""
LOOKED_AT: Final = timedelta(minutes=5)
"""How often it is looked at, at least: no watch tells that a Secret or the bundle was deleted."""
_SOON: Final = timedelta(seconds=1)


class IssuedCertificate(Struct, frozen=True):
    id: str
    ca: str
    """The certificate of its CA."""
    not_after: datetime
    published: datetime | None = None
    """Since when the bundle has its CA."""
    lost: bool = False
    """Its Secret is gone."""

    def settled(self, now: datetime) -> bool:
        return self.published is not None and now - self.published >= REACHES_PODS


class CertificatePlan(Struct, frozen=True):
    active: str
    """The id of the one that syncers should serve with. Empty if there is none yet."""
    kept: tuple[IssuedCertificate, ...]
    """Those whose CAs are in the bundle, newest last."""
    dropped: tuple[IssuedCertificate, ...]
    issue: bool
    """Whether another one has to be made."""
    again: timedelta
    """When to look again."""

    @property
    def bundle(self) -> str:
        return "".join(certificate.ca for certificate in self.kept)

    @property
    def unpublished(self) -> tuple[IssuedCertificate, ...]:
        return tuple(certificate for certificate in self.kept if certificate.published is None)


def plan(known: Iterable[IssuedCertificate], *, now: datetime) -> CertificatePlan:
    found = sorted(known, key=lambda certificate: (certificate.not_after, certificate.id))
    kept = tuple(certificate for certificate in found if _is_kept(certificate, now))
    return CertificatePlan(
        active=_active(kept, now),
        kept=kept,
        dropped=tuple(certificate for certificate in found if certificate not in kept),
        issue=not any(certificate.not_after - now > RENEWED for certificate in kept if not certificate.lost),
        again=_again(kept, now),
    )


def _is_kept(certificate: IssuedCertificate, now: datetime) -> bool:
    unknown = certificate.lost and certificate.published is None
    return certificate.not_after > now and not unknown


def _active(kept: tuple[IssuedCertificate, ...], now: datetime) -> str:
    """The newest that Pods believe, and rather one that is lost than one that they do not know yet.

    At the beginning they know none. Then it is the one that they have been given first: the longest on its way to them.
    """
    settled = [certificate for certificate in kept if certificate.settled(now)]
    usable = [certificate for certificate in kept if not certificate.lost]
    by_publication = sorted(usable, key=lambda certificate: certificate.published or now, reverse=True)
    for choices in ([one for one in settled if one in usable], settled, by_publication):
        if choices:
            return choices[-1].id
    return ""


def _again(kept: tuple[IssuedCertificate, ...], now: datetime) -> timedelta:
    moments = [certificate.not_after - RENEWED for certificate in kept]
    moments += [certificate.not_after for certificate in kept]
    moments += [(certificate.published or now) + REACHES_PODS for certificate in kept]
    ahead = [moment - now for moment in moments if moment > now]
    return max(_SOON, min([*ahead, LOOKED_AT]))
