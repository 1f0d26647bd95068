"""Which lines name an error, by words that what stands around them may take back: `counts_error`.

A word such as `error` or `failed` counts unless what stands around it takes it back: none happened (`0 errors`,
`failed: 0`), a number is measured (`val error 0.12`), or it is part of another name (`error bars`, `error.png`).
"""

from __future__ import annotations

import re

_COUNTED = (
    r"\berrors?\b|(?-i:\b[A-Z]\w*(?:Error|Exception|Interrupt)\b(?=\s*(?:[:(\r\n]|$)))|"
    r"\b(?:fail(?:ed|ures?|s|ing)|exceptions?|abort(?:ed|ing)|killed|crashed|timed out|out of memory|terminated)\b|"
    r"(?-i:\bFAIL\b)|\bpanic(?:ked)?\b|\bfatal\b|(?-i:\bCRITICAL\b)|\billegal\b|\binvalid (?:argument|device|pointer)\b"
)
"""Words that what stands around them may take back."""
_COUNTED_WORD = re.compile(_COUNTED, re.IGNORECASE)
COUNTED_NEEDLES = (
    "error", "exception", "interrupt", "fail", "abort", "killed", "crashed", "timed out", "out of memory", "terminated",
    "panic", "fatal", "critical", "illegal", "invalid",
)  # fmt: skip
"""Every counted word holds one, in lower case."""
_AROUND_CHARACTERS = 80

_NUMBERED = re.compile(
    r"(?:actor|attempt|batch|client|container|core|device|epoch|fold|gpu|group|host|id|index|iter|iteration|job|layer|"
    r"local_rank|node|npu|part|phase|pid|pod|proc|process|rank|replica|request|retry|run|sample|shard|stage|step|task|"
    r"thread|trial|try|worker)",
    re.IGNORECASE,
)
"""Words whose number is a name, not a count: `rank 0 failed`."""
_OTHERS = (
    r"(?:(?:errors?|failures?|exceptions?|warnings?|failed|crashed|aborted|killed)\s*(?:,|/|\b(?:or|and|nor)\b)\s*)*$"
)
_DENIED = re.compile(
    r"\b(?:no|none|nothing|without|zero|never|any|not|expected)\s+(?:\w+\s+)?" + _OTHERS, re.IGNORECASE
)
_ZERO = re.compile(
    r"(?P<of>[A-Za-z_]+)?[\s:=#(\[,;|]*(?<![\w.])0(?:\s?(?:/|of|out of)\s?\d+)?\s+(?:[A-Za-z]\w*\s+)?" + _OTHERS,
    re.IGNORECASE,
)
_NAUGHT = re.compile(
    r"""^["']?(?:\s+[A-Za-z]\w*){0,2}(?:\s*["']?[:=|]\s*|\s+(?=0))(?:0+(?:\.0+)?%?(?![\w.:/])|\[\]|\{\}|""|''|"""
    r"""(?:none|null|false|no|n/a|off|disabled)(?=\s*(?:[,;.)}\]|]|$)))""",
    re.IGNORECASE,
)
_NUMBER = r"[-+]?(?:\d*\.\d+(?:e[-+]?\d+)?|\d+e[-+]?\d+|\d+\s*%)(?![\w.]*[.:]\d)(?!\s*[kmgt]i?b\b)"
_MEASURED = re.compile(
    rf"^(?:\s+rate|\s+norm|\s+(?:on|in|of|per|over|for)(?:\s+\w+){{1,3}}(?=\s*[:=|]))?\s*[:=|(]?\s*\[?\s*{_NUMBER}",
    re.IGNORECASE,
)
_METRIC = re.compile(
    r"\b(?:train(?:ing)?|val(?:id(?:ation)?)?|test|eval(?:uation)?|mean|average|avg|median|max(?:imum)?|min(?:imum)?|"
    r"squared?|absolute|abs|relative|rel|percentage|standard|rms|mse|mae|rmse|l[12]|top-?\d+|word|char(?:acter)?|"
    r"(?:re)?construction|quanti[sz]ation|prediction|generali[sz]ation|approximation|estimation|rounding|numerical|"
    r"classification|calibration|regression|truncation|residual|position|rotation|translation|angular|depth|pose|"
    r"alignment|interpolation|forecast|bellman|td|best|final)[\s_-]+$",
    re.IGNORECASE,
)
_TOLD = re.compile(r"^s?(?:\s*:\s*[A-Za-z(]|\s+(?:occurred|in|while|when|during|at)\b)", re.IGNORECASE)
"""After `test error`: an error is told, none is measured."""
_OTHER_NAME = re.compile(
    r"^(?:\.(?:png|txt|log|json|csv|py|pt|npy|html|pdf|svg|out|err|md|yaml|yml|jsonl)\b|-(?:free|prone|tolerant|"
    r"rate)\b|"
    r"\s+(?:handlers?|hooks?|rates?|curves?|bars?|bounds?|budget|tolerance|correct(?:ion|ing)|recovery|detect(?:ion|"
    r"or)|policy|"
    r"callbacks?|feedback|thresholds?|metrics?|track(?:ing|er)|report(?:ing|er|s)?|logg(?:ing|er)|logs?|files?|"
    r"streams?|output|"
    r"margins?|terms?|analysis|model(?:l?ing)?|propagation|compensation|accumulation|maps?|checking|injection|"
    r"levels?|matrix|"
    r"distribution|histogram|norms?|ratio|scale|page|types?|class(?:es)?|counts?(?=\W*(?:0\b|$))|budgets?|surface|"
    r"ellipse|support|"
    r"estimat(?:e|ion|or)s?|variance|statistics?|plots?|domains?|injector|(?:is |are )?(?:within|below|under|less|"
    r"smaller)|tests?(?= (?:pass|ok))|modes?|"
    r"statuse?s?(?=\W*(?:0|ok)\b)|"
    r"mitigation|avoidance|resilience|safe(?:ty)?|over|handling(?=\s*(?:[:=,.;]|$|is\b|enabled|on\b)))\b|"
    r"\s*codes?\s*[:=]?\s*0(?![\w.])|[\"']?\s*[:=]\s*[\"']?(?:ignore|strict|replace|raise|coerce|warn|"
    r"surrogateescape|skip|retry|"
    r"continue|abort|exit)\b[\"']?(?:[\s,)}\]]|$)|\s+messages?\b(?!\s*[:=]))",
    re.IGNORECASE,
)
_PART_BEFORE = re.compile(r"(?:[/\\@$%]|\w[.-]|--?|\b(?:log[ _-]?)?level\b\s*[:=]?\s*[\"']?)$", re.IGNORECASE)
_PART_AFTER = re.compile(r"^(?:[/\\]|\.\w|-\w|_|\(\)|\[\d|=(?:True|False)\b)")
"""The word is part of a path, an option or another name: `/data/error/x`, `on-failure`, `fail-fast`, `errors.py`."""
_SUPPOSED = re.compile(
    r"\b(?:if|when(?:ever)?|unless|until|in case|should|whether|in the event|every time|may|might|would|can|will)\b"
    r"[^.:;!?]{0,60}$",
    re.IGNORECASE,
)
"""What follows is not said to have happened."""
_SPOKEN_OF = re.compile(
    r"\b(?:(?<!ed )on|upon|between|(?<!due )to|causes?|raises?|throws?|for|avoid(?:s|ing)?|prevent(?:s|ing)?|"
    r"reduce[sd]?|"
    r"tolerates?|simulate[sd]?|inject(?:s|ed)?|handles?|catch(?:es)?|ignor(?:e[sd]?|ing)|suppress(?:es|ed)?|"
    r"detect(?:s|ing)|reports?|minimi[sz](?:e|es|ing)|measur(?:e|es|ing)|fix(?:e[sd])?|writ(?:e|es|ing)|send(?:s|ing)?|"
    r"sav(?:e|es|ing)|redirect(?:s|ing)?|stor(?:e|es|ing)|print(?:s|ing)?)\s+"
    r"(?:(?:an?|the|any|all|some)\s+)?(?:[\w-]+\s+)?$",
    re.IGNORECASE,
)
"""The noun that follows is a matter, not an event: `handle errors`, `on error`."""
_THE = re.compile(
    r"\b(?:the|these|those|such|each|every|their|its|this|all|other|which|(?<!because )(?<!result )of|"
    r"whose)\s+(?:[\w-]+\s+){0,2}$",
    re.IGNORECASE,
)
_MATTER = re.compile(
    r"^\s+(?:may|might|can|could|will|would|should|must|are|is (?:raised|thrown|handled|returned))\b", re.IGNORECASE
)
_EVENT = re.compile(
    r"^\s*(?:[:=#]|(?:has |have |was |were |is )?(?:occurr|happen|rais|thrown|detected|found|encountered)|above|below)",
    re.IGNORECASE,
)
"""A noun with an article is spoken of, unless something is said to have happened."""
_NOUN = re.compile(r"(?:error|exception|failure|fail|abort)s?", re.IGNORECASE)
_MESSAGE = re.compile(r"^\s*(?:[:=#(]\s*\S|codes?\b|\d)")
_OPTION = re.compile(r"(?:^|\s)--[\w-]*$")
_GIVEN = re.compile(r"[:=]\s*[\"']$")
_CELL = re.compile(r"\|\s*$")
_CELL_END = re.compile(r"^\s*\|")
_ENDED = re.compile(r"(?:^|\d:)\s*$")


def counts_error(text: str) -> bool:
    """Tell whether a word of the line names an error or a failure, and nothing around it takes it back."""
    lower = text.lower()
    if not any(needle in lower for needle in COUNTED_NEEDLES):
        return False
    return any(not _is_taken_back(text, word) for word in _COUNTED_WORD.finditer(text))


def is_supposed(before: str) -> bool:
    """Tell whether what stands before a word only supposes it: `if it fails`, `on error`, `may fail`."""
    return _SUPPOSED.search(before) is not None


def _is_taken_back(line: str, word: re.Match[str]) -> bool:
    before = line[max(0, word.start() - _AROUND_CHARACTERS) : word.start()]
    after = line[word.end() : word.end() + _AROUND_CHARACTERS]
    if word[0].lower() == "terminated":  # a state of a container; alone, or behind a task's number, an end by a signal
        return bool(after.strip()) or not _ENDED.search(before)
    if word[0].lower().rstrip("s").endswith("error") and _is_metric(before, after):
        return True
    if _NAUGHT.match(after) or _DENIED.search(before) or _is_none(before):
        return True
    if (
        is_supposed(before)
        or _is_spoken_of(before, word[0], after)
        or _PART_BEFORE.search(before)
        or _PART_AFTER.match(after)
    ):
        return True
    return bool(_OTHER_NAME.match(after) or _OPTION.search(before) or _is_cited(line, word, before, after))


def _is_cited(line: str, word: re.Match[str], before: str, after: str) -> bool:
    """Tell whether the word is a value in quotes that no name is given, or a heading of a table."""
    quoted = before[-1:] in ("'", '"') and after[:1] == before[-1:] and not _GIVEN.search(before)
    in_cell = (
        line.lstrip().startswith("|") and not word[0].isupper() and _CELL.search(before) and _CELL_END.match(after)
    )
    return bool(quoted or in_cell)


def _is_spoken_of(before: str, word: str, after: str) -> bool:
    if not _NOUN.fullmatch(word) or _MESSAGE.match(after):
        return False
    if _SPOKEN_OF.search(before) or _MATTER.match(after):
        return True
    return bool(_THE.search(before) and not _EVENT.match(after))


def _is_metric(before: str, after: str) -> bool:
    """Tell whether the error between these is a measured one."""
    return bool(_MEASURED.match(after) or (_METRIC.search(before) and not _TOLD.match(after)))


def _is_none(before: str) -> bool:
    """Tell whether a count of 0 stands before the word."""
    zero = _ZERO.search(before)
    return zero is not None and not _NUMBERED.fullmatch(zero["of"] or "")
