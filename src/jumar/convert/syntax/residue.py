"""`Residue`: a place of a text that may still mean CUDA, told by its tokens alone.

The rules resolve names; this does not, so that what they overlook, and files that they cannot read, do not stay
silent. Comments, documentation and messages are no residue.
"""

from __future__ import annotations

import ast
import io
import re
import textwrap
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from jumar.convert.model.text import UNPARSABLE, parse_python

Kind = Literal["method", "name", "word", "code"]
"""`method`: `.cuda()`, `.is_cuda`; `name`: `torch.cuda`; `word`: the string `'cuda'`; `code`: a string of code."""


@dataclass(frozen=True, slots=True)
class Residue:
    """One place: its characters, and what stands there."""

    start: int
    end: int
    text: str
    kind: Kind


_WORD = re.compile(r"[rRuUbBfF]*(['\"]{1,3})cuda(:(\d+|\{[^{}]*\}|%[sdi])?)?\1")
_MAY_BE_CODE = re.compile(r"\.cuda\s*\(|torch\s*\.\s*cuda|\.is_cuda\b|[=(,]\s*\\?['\"]cuda[:'\"\\]")
_SPEAKERS = frozenset(
    {
        "print",
        "warn",
        "warning",
        "info",
        "error",
        "debug",
        "log",
        "exception",
        "critical",
        "write",
        "skip",
        "xfail",
        "fail",
    }
    | {"skipif", "skipIf", "skipUnless", "ArgumentParser", "match", "compile", "search", "sub", "fullmatch", "replace"}
)
_TEXT_KEYWORDS = frozenset({"help", "description", "reason", "msg", "message", "match", "epilog", "title", "name"})
_BREAKS = frozenset(
    {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.NL, tokenize.ENCODING, tokenize.COMMENT}
)
_FIELD = re.compile(r"(?<!\{)\{[^{}]+\}(?!\})")
_PLACEHOLDER = re.compile(r"\$\{?(?P<name>[A-Za-z_]\w*)\}?")
_COMMAND = re.compile(r"\bpython[\d.]*\s+(?:-\w\s+)*-c\s+(?P<quote>['\"])(?P<code>.*?)(?P=quote)", re.DOTALL)
"""Code in a string for a shell: `python -c '...'`."""
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|$)")


def python_residues(text: str) -> list[Residue]:
    """Return the residues of a Python source, or of the cells of a notebook, in the order of the text."""
    if "cuda" not in text:
        return []
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text, newline="").readline))
    except (tokenize.TokenError, SyntaxError):
        return text_residues(text)
    starts = [match.start() for match in _LINE.finditer(text)]
    code = [token for token in _whole(tokens, text, starts) if token.type not in (tokenize.NL, tokenize.COMMENT)]
    own = _own_names(code)
    return [
        Residue(_offset(starts, token.start), _offset(starts, token.end), what, kind)
        for index, token in enumerate(code)
        for what, kind in _at(code, index, own)
    ]


def _whole(tokens: list[tokenize.TokenInfo], text: str, starts: Sequence[int]) -> Iterator[tokenize.TokenInfo]:
    """Yield the tokens with each f-string as one, which Python 3.12 and later take apart."""
    begun: list[tokenize.TokenInfo] = []
    for token in tokens:
        name = tokenize.tok_name[token.type]
        if name.endswith("STRING_START"):
            begun.append(token)
        elif name.endswith("STRING_END"):
            first = begun.pop()
            if not begun:
                string = text[_offset(starts, first.start) : _offset(starts, token.end)]
                yield token._replace(type=tokenize.STRING, string=string, start=first.start)
        elif not begun:
            yield token


def _offset(starts: Sequence[int], place: tuple[int, int]) -> int:
    return starts[place[0] - 1] + place[1]


def _own_names(code: Sequence[tokenize.TokenInfo]) -> frozenset[str]:
    """Return which of `cuda` and `is_cuda` this file defines or sets itself."""
    found = set()
    for before, token, after in zip(code, code[1:], code[2:], strict=False):
        if token.string in ("cuda", "is_cuda") and (before.string == "def" or after.string == "="):
            found.add(token.string)
    return frozenset(found)


def _at(code: Sequence[tokenize.TokenInfo], index: int, own: frozenset[str]) -> Iterator[tuple[str, Kind]]:
    token = code[index]
    if token.type == tokenize.STRING and "cuda" in token.string:
        yield from _string(code, index)
    if token.type != tokenize.NAME or token.string not in ("cuda", "is_cuda") or index == 0:
        return
    dot, following = code[index - 1].string, code[index + 1].string if index + 1 < len(code) else ""
    if dot != ".":
        return
    before = code[index - 2].string if index > 1 else ""
    if token.string == "is_cuda":
        if token.string not in own and following not in ("=", "("):
            yield ".is_cuda", "method"
    elif before == "torch":
        yield "torch.cuda", "name"
    elif following == "(":
        yield ".cuda()", "method"
    elif following == "." and index + 3 < len(code) and code[index + 3].string == "(":
        yield f".cuda.{code[index + 2].string}()", "name"


def _string(code: Sequence[tokenize.TokenInfo], index: int) -> Iterator[tuple[str, Kind]]:
    text = code[index].string
    if _WORD.fullmatch(text):
        yield text, "word"
    elif _MAY_BE_CODE.search(text) and not _is_message(code, index) and _holds_code(text):
        shown = " ".join(text.split())
        yield shown if len(shown) <= 40 else f"{shown[:37]}...", "code"


def _is_message(code: Sequence[tokenize.TokenInfo], index: int) -> bool:
    """Tell whether a string is documentation, or text for people: by what stands before it."""
    if index == 0 or code[index - 1].type in _BREAKS:
        return True
    before = code[index - 1].string
    if before == "=" and index > 1:
        return code[index - 2].string in _TEXT_KEYWORDS
    depth, at = 0, index - 1
    while at >= 0 and code[at].type not in _BREAKS:
        depth += {")": 1, "]": 1, "(": -1, "[": -1}.get(code[at].string, 0)
        if depth < 0:
            called = code[at - 1].string if at else ""
            return called in _SPEAKERS or called.endswith(("Error", "Exception", "Warning"))
        at -= 1
    return False


def _holds_code(literal: str) -> bool:
    """Tell whether a string literal is, or hands over, Python that speaks of CUDA (`exec("x.cuda()")`)."""
    value = _value(literal)
    commands = (match["code"] for match in _COMMAND.finditer(value))
    return any(_is_code(textwrap.dedent(text)) for text in (value, _PLACEHOLDER.sub(r"\g<name>", value), *commands))


def _value(literal: str) -> str:
    """Return the text of a string literal; a field of an f-string is a name in it."""
    prefix = literal[: len(literal) - len(literal.lstrip("rRuUbBfF"))]
    if "f" in prefix.lower():
        literal = prefix.lower().replace("f", "") + _FIELD.sub("_field", literal[len(prefix) :])
    try:
        value = ast.literal_eval(literal)
    except (*UNPARSABLE, TypeError):
        return ""
    return value if isinstance(value, str) else ""


def _is_code(inner: str) -> bool:
    try:
        parse_python(inner)
    except UNPARSABLE:
        return False
    return any(found.kind != "word" or inner.strip() != found.text for found in python_residues(inner))


_IN_TEXT = re.compile(
    r"(?P<method>\.cuda\s*\(|\.is_cuda\b)|(?P<name>\btorch\s*\.\s*cuda\b|\bcuda\w*\.h\b|\bCUDA_VISIBLE_DEVICES\b"
    r"|--[\w-]*device[ =]cuda\b|\b(?:find_package|enable_language)\s*\(\s*CUDA\w*"
    r"|\b(?:cudart|cudnn|cublas|nccl)\b(?=[^()\n]*\)))"
    r"|(?P<word>(?P<quote>['\"])cuda(?::\d+)?(?P=quote))"
)
_COMMENT = re.compile(r"^[ \t]*(?:#|//|;|\{#|--|rem\b|dnl\b)|(?<=[\s;{}()])#(?!\{)", re.IGNORECASE)


def text_residues(text: str) -> list[Residue]:
    """Return the residues of any other text, line by line; what stands behind a comment's mark is none."""
    found: list[Residue] = []
    at = 0
    for line in text.splitlines(keepends=True):
        comment = _COMMENT.search(line)
        end = comment.start() if comment is not None else len(line)
        for match in _IN_TEXT.finditer(line, 0, end):
            kind: Kind = "method" if match["method"] else "name" if match["name"] else "word"
            shown = match.group().replace(" ", "").replace("(", "()")
            found.append(Residue(at + match.start(), at + match.end(), shown, kind))
        at += len(line)
    return found
