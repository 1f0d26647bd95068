"""`summary_text`: the file `ascend_op_info_summary.txt` as the script of document 004 writes it.

One line for each operator and different description: the type, a blank, the rest. As there the last character of a
line of the log is left out. Lines stand in the order of their first appearance; the script's order changes.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.advise.doctor.opinfo.gather import Gathered

FILE_NAME = "ascend_op_info_summary.txt"


def summary_text(gathered: Gathered) -> str:
    """Return the text of the file."""
    return "".join(f"{line}\n" for line in dict.fromkeys(_lines(gathered)))


def _lines(gathered: Gathered) -> Iterator[str]:
    for operator in gathered.types:
        for variant in operator.variants:
            info = variant.text[:-1]
            name = info.split(",", maxsplit=1)[0]
            yield f"{name} {info[len(name) + 2 :]}"
