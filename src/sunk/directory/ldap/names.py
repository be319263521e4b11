r"""Distinguished names in one form, so that the member of a group is found however its name is written.

Attribute types and almost all values that name people are compared without regard to case, and spaces around separators mean
nothing. `\,`, `\2c` and `","` are the same comma. What a server calls different can therefore become equal only where two
people differ by nothing but case, which no directory allows.
"""

import re
from typing import Final

_SPECIAL: Final = re.compile(r'[\\"+;]|\s\s|\s[,=]|[,=]\s|^\s|\s$')
_TOKEN: Final = re.compile(rb'\\([0-9A-Fa-f]{2})|\\(.)|([,;])|(\+)|(")|([^\\,;+"]+)|(.)', re.DOTALL)
_RDN, _AVA = "\x00", "\x01"


def normal(dn: bytes) -> str:
    """Give the form by which names are compared. It is no DN any more."""
    text = dn.decode("utf-8", "surrogateescape")
    if not _SPECIAL.search(text):  # nearly all
        return text.lower().replace(",", _RDN)
    return _RDN.join(_AVA.join(sorted(map(_pair, rdn))) for rdn in _split(dn))


def _split(dn: bytes) -> list[list[bytes]]:
    """Take a name apart: its RDNs, of which each is one or more pairs, with what was escaped as it is meant."""
    rdns, pair, quoted = [[bytearray()]], 0, False
    for code, escaped, comma, plus, quote, plain, other in _TOKEN.findall(dn):
        if quote:
            quoted = not quoted
        elif comma and not quoted:
            rdns.append([bytearray()])
            pair = 0
        elif plus and not quoted:
            rdns[-1].append(bytearray())
            pair += 1
        else:
            rdns[-1][pair] += bytes.fromhex(code.decode()) if code else escaped or comma or plus or plain or other
    return [[bytes(each) for each in rdn] for rdn in rdns]


def _pair(pair: bytes) -> str:
    kind, _, value = pair.decode("utf-8", "surrogateescape").partition("=")
    return f"{kind.strip().lower()}={' '.join(value.split()).lower()}"


def first_value(dn: bytes, attribute: str) -> str:
    """Give the value that the name begins with, in lowercase, if it is one of this attribute."""
    kind, _, value = normal(dn).partition(_RDN)[0].partition(_AVA)[0].partition("=")
    return value if kind == attribute.lower() else ""
