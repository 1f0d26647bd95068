"""The part of the logs' page on many ranks: each error with its ranks, silent ranks, ranks without a log."""

from __future__ import annotations

from collections.abc import Sequence

from jumar.advise.doctor.logs.ranks import RankGroup, RankSummary, SilentRank, ranges_text
from jumar.base.findings import Severity
from jumar.base.text import counted
from jumar.show.blocks.page import Column, Section, Table, Text

_MOST_GROUPS = 12
_MOST_SILENT = 5
_FOLLOWS = " It follows from another error."
_MOST_CHARACTERS = 60
"""Of a list of ranks, and of a line."""


def rank_sections(summary: RankSummary) -> list[Section]:
    """Return the sections: on one screen whatever the number of ranks."""
    sections = [Section(title="Errors by rank", blocks=[_groups(summary.groups), *_more(summary.groups)])]
    if summary.silent:
        sections.append(Section(title="Silent ranks", blocks=[_silence(summary.silent), _silent(summary.silent)]))
    if summary.missing:
        text = f"{_ranks(summary.missing)} {'has' if len(summary.missing) == 1 else 'have'} no log here."
        sections.append(Section(title="Without a log", blocks=[Text(text=text)]))
    return sections


def told_ranks(summary: RankSummary) -> str:
    """Return one sentence: the ranks of the first error; how many have others, are silent, or have no log."""
    errors = [group for group in summary.groups if group.first.severity is Severity.ERROR]
    if not errors:
        return f"{summary.num_ranks} ranks, none with an error."
    others = {rank for group in errors[1:] for rank in group.ranks} - set(errors[0].ranks)
    parts = [f"{counted(summary.num_ranks, 'rank')}: the first error on {_short(errors[0].ranks) or 'no named rank'}"]
    parts += [f"other errors on {len(others)}"] if others else []
    parts += [f"no known error on {len(summary.silent)}"] if summary.silent else []
    parts += [f"no log of {len(summary.missing)}"] if summary.missing else []
    return ", ".join(parts) + "."


def _groups(groups: Sequence[RankGroup]) -> Table:
    columns = [
        Column(title="First time"),
        Column(title="Ranks"),
        Column(title="Logs", number=True),
        Column(title="Lines", number=True),
        Column(title="What"),
        Column(title="First at", code=True),
    ]
    rows = [
        (
            str(group.first.finding.evidence.get("time", ""))[:19],
            _short(group.ranks),
            group.num_files,
            group.num_lines,
            group.first.finding.message + (_FOLLOWS if group.first.role == "consequence" else ""),
            str(group.first.finding.where),
        )
        for group in groups[:_MOST_GROUPS]
    ]
    return Table(columns=columns, rows=rows, marked=_first_error(groups[:_MOST_GROUPS]))


def _first_error(groups: Sequence[RankGroup]) -> list[int]:
    return [index for index, group in enumerate(groups) if group.first.severity is Severity.ERROR][:1]


def _more(groups: Sequence[RankGroup]) -> list[Text]:
    more = len(groups) - _MOST_GROUPS
    return [Text(text=f"{counted(more, 'further kind')} of error: see --json.")] if more > 0 else []


def _silence(silent: Sequence[SilentRank]) -> Text:
    hold = "Its log holds" if len(silent) == 1 else "Their logs hold"
    return Text(
        text=f"{_ranks([one.rank for one in silent])}: {hold} no error that Jumar knows. Where the others wait for "
        "such a rank, it hung or was killed; its last line says where. Those that stopped first stand first."
    )


def _silent(silent: Sequence[SilentRank]) -> Table:
    columns = [Column(title="Rank", number=True), Column(title="Last time"), Column(title="Last line", code=True)]
    rows = [
        (
            one.rank,
            one.last_time.isoformat(" ", "seconds") if one.last_time else "",
            _cut(one.last_line, 2 * _MOST_CHARACTERS),
        )
        for one in silent[:_MOST_SILENT]
    ]
    return Table(columns=columns, rows=rows)


def _ranks(ranks: Sequence[int]) -> str:
    return f"Rank {ranks[0]}" if len(ranks) == 1 else f"Ranks {_short(ranks)}"


def _short(ranks: Sequence[int]) -> str:
    text = ranges_text(ranks)
    return text if len(text) <= _MOST_CHARACTERS else f"{_cut(text)} ({len(ranks)} ranks)"


def _cut(text: str, most: int = _MOST_CHARACTERS) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
