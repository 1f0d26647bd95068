"""Where the bank is: the documented order, and one sentence when a place cannot be used.

    --bank PLACE  >  TUNE_BANK_PATH  >  ASCEND_CACHE_PATH/aoe_data  >  XDG_DATA_HOME/jumar (~/.local/share/jumar)

The first two are a folder or the URL of a database that a team shares. A folder must exist (the vendor's rule
for TUNE_BANK_PATH: tuning stops when it does not), the last two are made by who writes: a look into a bank makes
nothing, as with a name that was mistyped.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from jumar.base.home import home_folder
from jumar.tune.model.errors import BankError
from jumar.tune.model.process import expanded

FILE_NAME = "jumar_tune_bank.sqlite3"
Place = Path | str
"""A folder, or the URL of a database."""


def bank_place(
    option: str | None, environ: Mapping[str, str], *, writing: bool = False, option_name: str = "--bank"
) -> Place:
    """Return where the bank is: a folder, or a URL (what has `://` in it); messages call `option` by its name.

    Raises BankError when the folder that was named cannot be read (or written, with `writing`), or cannot be made.
    """
    for source, text in ((option_name, option), ("TUNE_BANK_PATH", environ.get("TUNE_BANK_PATH"))):
        if text and "://" in text:
            return text
        folder = _path(source, text)
        if folder is not None:
            _check(source, folder, writing)
            return folder
    cache = _path("ASCEND_CACHE_PATH", environ.get("ASCEND_CACHE_PATH"))
    if cache is not None:
        return _made("ASCEND_CACHE_PATH", cache / "aoe_data", writing)
    return _made("the bank's default place", data_folder(environ), writing)


def data_folder(environ: Mapping[str, str]) -> Path:
    """Return where the user's own data of Jumar lies: XDG_DATA_HOME/jumar. Raises BankError without a home folder."""
    named = _path("XDG_DATA_HOME", environ.get("XDG_DATA_HOME"))
    if named is not None:
        return named / "jumar"
    home = home_folder()
    if home is None:
        raise BankError(
            "Jumar's own data must lie in XDG_DATA_HOME or a home folder; neither is known. Set XDG_DATA_HOME."
        )
    return home / ".local" / "share" / "jumar"


def built_in_place(environ: Mapping[str, str]) -> Place | None:
    """Return where the layer beneath the bank is, which is read and never written: JUMAR_BUILT_IN_BANK, or None.

    Raises BankError when the folder that was named cannot be read.
    """
    text = environ.get("JUMAR_BUILT_IN_BANK")
    if not text or "://" in text:
        return text or None
    folder = expanded(text, "JUMAR_BUILT_IN_BANK", BankError)
    _check("JUMAR_BUILT_IN_BANK", folder, writing=False)
    return folder


def _path(source: str, text: str | None) -> Path | None:
    return expanded(text, source, BankError) if text else None


def _check(source: str, folder: Path, writing: bool) -> None:
    if not folder.is_dir():
        raise BankError(f"{source} must be an existing folder; got {folder}. Make it, or name another.")
    if not os.access(folder, os.R_OK | os.X_OK | (os.W_OK if writing else 0)):
        what = "a folder that can be read and written" if writing else "a folder that can be read"
        raise BankError(f"{source} must be {what}; got {folder}. Change its permissions, or name another.")


def _made(source: str, folder: Path, writing: bool) -> Path:
    """Return the folder, which is made where there is none and something is to be written. Raises BankError."""
    try:
        if writing:
            folder.mkdir(parents=True, exist_ok=True)
        if folder.exists():
            _check(source, folder, writing=False)
    except OSError as error:
        raise BankError(
            f"{source} ({folder}) cannot be {'made' if writing else 'looked into'}: {error.strerror}. Set "
            "TUNE_BANK_PATH to a folder you can write to."
        ) from error
    return folder
