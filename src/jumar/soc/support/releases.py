"""Which release of torch_npu counts (`chosen`), and which names it has: the packaged table `torch_npu_releases.json`.

Imports no torch.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

from jumar.base.errors import DeviceError
from jumar.soc.support.data import table

OF_TABLES = "2.13"
"""The release that the other tables are of: kernels and the vendor's list of later releases count as those of it."""

_PACKAGES = ("torch_npu", "torch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The release of torch_npu, and of the PyTorch of the same number, that a command works for."""

    name: str
    """`2.13`."""
    origin: str
    """Where it comes from, to be read after the name: `that of the torch 2.13.0 installed here`."""
    is_assumed: bool = False
    """Whether neither the user nor an installed package says it."""


def releases() -> tuple[str, ...]:
    """Return the releases whose names are known, oldest first: `2.1`, `2.3`, …, `2.14`."""
    return tuple(table("torch_npu_releases")["releases"])


def newest() -> str:
    """Return the newest release whose names are known."""
    return releases()[-1]


def chosen(asked: str | None = None) -> Release:
    """Return the release that counts: the one asked for, else that of the installed pair, else the newest known.

    Raises DeviceError where the one asked for is not known.
    """
    return Release(name=checked(asked), origin="as asked") if asked is not None else installed_pair()


def checked(version: str) -> str:
    """Return the release of `2.13`, `2.13.0` or `2.13.0+cpu`. Raises DeviceError for one whose names are not known."""
    found = _short(version)
    if found not in releases():
        known = ", ".join(releases())
        raise DeviceError(f'the torch version must be one that the support tables cover; got "{version}": use {known}.')
    return found


def covered(release: str) -> str:
    """Return the release whose kernels and whose list of PyTorch APIs count for `release`."""
    return min(release, OF_TABLES, key=_minor)


def spans_of(name: str) -> str:
    """Return the releases that have `torch_npu.npu.ipc_collect` as text, `2.1 2.5-2.14`; "" where the table has none.

    The table leaves out names that every release has, and knows no others.
    """
    return str(table("torch_npu_releases")["names"].get(canonical(name), ""))


def canonical(name: str) -> str:
    """Return the vendor's spelling of a name: `torch.npu` is `torch_npu.npu`."""
    return f"torch_npu.npu{name[9:]}" if name == "torch.npu" or name.startswith("torch.npu.") else name


def lacks(name: str, release: str) -> bool:
    """Tell whether some release has this name and `release` does not."""
    spans = spans_of(name)
    return bool(spans) and release in releases() and release not in set(_in_spans(spans))


def instead(name: str) -> str:
    """Return what to use in a release that lacks a name: one sentence, "" for a name that all releases have."""
    return str(table("torch_npu_releases")["instead"].get(canonical(name), ""))


def signature_in(name: str, release: str) -> str:
    """Return the signature that a name has in a release; "" where it is the same in all of them, or not known."""
    found = ""
    for since, signature in table("torch_npu_releases")["signatures"].get(canonical(name), {}).items():
        if _minor(since) <= _minor(release):
            found = signature
    return str(found)


def overloads_in(operator: str, release: str) -> tuple[str, ...]:
    """Return the schemas of an operator of `torch_npu` in a release, where some of them changed; () for others."""
    from jumar.soc.support.public_api import public_names  # few files call one

    keys = {
        key for key in public_names() if key.partition(".")[0] == operator and public_names()[key].kind == "operator"
    }
    return tuple(
        signature_in(f"func: {key}", release) or public_names()[key].signature
        for key in sorted(keys)
        if any(signature_in(f"func: {other}", release) for other in keys)
    )


@functools.cache
def installed_pair() -> Release:
    """Return the release of the torch_npu installed here, else that of torch, else the newest known."""
    for package in _PACKAGES:
        try:
            version = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
        found = _short(version)
        if found in releases():
            return Release(name=found, origin=f"that of the {package} {version} installed here")
        origin = f"the newest known: that of the {package} {version} installed here is not"
        return Release(name=newest(), origin=origin, is_assumed=True)
    origin = "the newest known: neither torch_npu nor torch is installed here"
    return Release(name=newest(), origin=origin, is_assumed=True)


def _short(version: str) -> str:
    match = re.match(r"v?(\d+\.\d+)(?:$|[.+a-z])", version.strip())
    return match[1] if match else ""


def _in_spans(spans: str) -> Iterator[str]:
    for span in spans.split():
        first, _, last = span.partition("-")
        low, high = _minor(first), _minor(last or first)
        yield from (release for release in releases() if low <= _minor(release) <= high)


def _minor(release: str) -> int:
    return int(release.partition(".")[2])
