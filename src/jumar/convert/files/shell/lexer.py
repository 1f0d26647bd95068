"""A lexer of the POSIX and Bash command language. It takes any text and keeps the position of every character.

It knows words, quotes, expansions, comments, continued lines, arrays and here-documents. It does not
build a tree: a list of simple commands is all that conversion needs. It never raises; what it cannot
make sense of ends up as ordinary words.
"""

from __future__ import annotations

import re

from jumar.convert.files.shell.words import HOLE, Command, Expansion, HereDocument, Script, Word, without_keywords

_BLANK = " \t\r"
_META = frozenset(" \t\r\n;&|<>()")
_REDIRECTION = re.compile(r"<<<|<<-?|>>|>\||[<>]&|&>>?|<>|[<>]")
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]")
_BRACED = re.compile(r"[#!]?([A-Za-z_]\w*)")
_ARRAY = re.compile(r"[A-Za-z_]\w*(\[[^\]]*\])?\+?=")
_MAX_DEPTH = 40


def read_script(text: str, start: int = 0, end: int | None = None, *, make: bool = False) -> Script:
    """Read the commands in `text[start:end]`; `make` tells that `$(…)` is make's, and `$$` the shell's `$`."""
    lexer = _Lexer(text, len(text) if end is None else end, make)
    lexer.commands(start, "", captured=False)
    return lexer.script


class _Lexer:
    def __init__(self, text: str, end: int, make: bool) -> None:
        self.text = text
        self.end = end
        self.make = make
        self.script = Script()
        self.depth = 0

    def char(self, at: int) -> str:
        return self.text[at] if at < self.end else ""

    def starts(self, what: str, at: int) -> bool:
        return self.text.startswith(what, at, self.end)

    def commands(self, at: int, closer: str, *, captured: bool) -> int:
        """Read commands up to `closer` (`)`, a backtick, or the end) and return the offset after it."""
        reader = _CommandReader(self, closer, captured)
        self.depth += 1
        try:
            return reader.read(at)
        finally:
            self.depth -= 1

    def continuation(self, at: int) -> int:
        """Return the length of a continued line's end at `at`, 0 where there is none."""
        if self.char(at) != "\\":
            return 0
        if self.char(at + 1) == "\n":
            return 2
        return 3 if self.char(at + 1) == "\r" and self.char(at + 2) == "\n" else 0

    def word(self, at: int, closer: str) -> tuple[Word, int]:
        """Read one word that starts at `at`."""
        builder = _WordBuilder()
        position = at
        while position < self.end:
            char = self.text[position]
            if char in _META or (char == "`" and closer == "`"):
                break
            position = self.piece(position, builder, closer)
        return builder.word(at, position), position

    def piece(self, at: int, builder: _WordBuilder, closer: str) -> int:
        char = self.text[at]
        if char == "\\":
            return self.escape(at, builder)
        if char == "'":
            return self.single(at, builder)
        if char == '"':
            return self.double(at, builder)
        if char in "$`":
            return self.expansion(at, builder, closer)
        builder.add(char, at)
        return at + 1

    def escape(self, at: int, builder: _WordBuilder) -> int:
        length = self.continuation(at)
        if length:
            return at + length
        if at + 1 < self.end:
            builder.add(self.text[at + 1], at + 1)
        return min(at + 2, self.end)

    def single(self, at: int, builder: _WordBuilder) -> int:
        builder.quoted = True
        close = self.text.find("'", at + 1, self.end)
        if close < 0:
            self.unclosed(at)
            close = self.end
        for position in range(at + 1, close):
            builder.add(self.text[position], position)
        return min(close + 1, self.end)

    def double(self, at: int, builder: _WordBuilder) -> int:
        builder.quoted = True
        position = at + 1
        while position < self.end:
            char = self.text[position]
            if char == '"':
                return position + 1
            if char == "\\":
                length = self.continuation(position)
                if not length and self.char(position + 1) not in '$`"\\':
                    builder.add(char, position)
                    position += 1
                    continue
                position = position + length if length else self.escape(position, builder)
            elif char in "$`":
                position = self.expansion(position, builder, '"')
            else:
                builder.add(char, position)
                position += 1
        self.unclosed(at)
        return self.end

    def unclosed(self, at: int) -> None:
        if self.script.unclosed is None:
            self.script.unclosed = at

    def expansion(self, at: int, builder: _WordBuilder, closer: str) -> int:
        if self.make and self.text[at] == "$" and self.char(at + 1) != "$":
            return self.make_expansion(at, builder)
        dollar = at + 1 if self.make and self.starts("$$", at) else at
        end = self.substitution(dollar, closer)
        if end == dollar:
            builder.add(self.text[at], at)
            return dollar + 1
        builder.add(HOLE, at)
        return end

    def substitution(self, at: int, closer: str) -> int:
        """Return the end of the expansion at `at`; `at` itself where there is none."""
        if self.depth > _MAX_DEPTH:
            return at
        if self.text[at] == "`":
            return at if closer == "`" else self.commands(at + 1, "`", captured=True)
        if self.starts("$((", at) or (self.starts("$'", at) and closer != '"'):
            closing = "))" if self.starts("$((", at) else "'"
            close = self.text.find(closing, at + 2, self.end)
            return close + len(closing) if close >= 0 else at
        if self.starts("$(", at):
            return self.commands(at + 2, ")", captured=True)
        return self.braced(at + 2) if self.starts("${", at) else self.variable(at)

    def variable(self, at: int) -> int:
        match = _NAME.match(self.text, at + 1, self.end)
        if match is None:
            return at
        self.script.expansions.append(Expansion(match.group(), match.start(), match.end()))
        return match.end()

    def braced(self, at: int) -> int:
        match = _BRACED.match(self.text, at, self.end)
        if match is not None:
            self.script.expansions.append(Expansion(match.group(1), match.start(1), match.end(1)))
        position, ignored = at, _WordBuilder()
        while position < self.end and self.text[position] != "}":
            step = self.piece(position, ignored, '"' if self.text[position] == "'" else "")
            position = max(step, position + 1)
        return min(position + 1, self.end)

    def make_expansion(self, at: int, builder: _WordBuilder) -> int:
        builder.add(HOLE, at)
        opening = self.char(at + 1)
        if opening not in ("(", "{"):
            return min(at + 2, self.end)
        closing = ")" if opening == "(" else "}"
        if self.starts("$(shell ", at) and self.depth <= _MAX_DEPTH:
            return self.commands(at + len("$(shell "), ")", captured=True)
        nested, position = 1, at + 2
        while position < self.end and nested and self.text[position] != "\n":
            nested += (self.text[position] == opening) - (self.text[position] == closing)
            position += 1
        return position


class _WordBuilder:
    def __init__(self) -> None:
        self.chars: list[str] = []
        self.offsets: list[int] = []
        self.quoted = False

    def add(self, char: str, at: int) -> None:
        self.chars.append(char)
        self.offsets.append(at)

    def word(self, start: int, end: int) -> Word:
        return Word(start, end, "".join(self.chars), tuple(self.offsets), self.quoted)


class _CommandReader:
    """Reads the commands of one level: a script, a substitution."""

    def __init__(self, lexer: _Lexer, closer: str, captured: bool) -> None:
        self.lexer = lexer
        self.closer = closer
        self.captured = captured
        self.command = Command(captured=captured)
        self.open_documents: list[HereDocument] = []
        self.subshells = 0
        self.redirection = ""

    def read(self, at: int) -> int:
        lexer = self.lexer
        while at < lexer.end:
            char = lexer.text[at]
            if char == self.closer == "`" or (char == ")" == self.closer and not self.subshells and not self.in_array):
                self.finish("")
                return at + 1
            at = self.step(at, char)
        self.finish("")
        return at

    @property
    def in_array(self) -> bool:
        return self.command.is_array

    def step(self, at: int, char: str) -> int:
        lexer = self.lexer
        if char in _BLANK:
            return at + 1
        if lexer.continuation(at):
            return at + lexer.continuation(at)
        if char == "\n":
            return at + 1 if self.in_array else self.newline(at)
        if char == "#":
            return self.comment(at)
        return self.token(at, char)

    def comment(self, at: int) -> int:
        end = self.lexer.text.find("\n", at, self.lexer.end)
        return self.lexer.end if end < 0 else end

    def token(self, at: int, char: str) -> int:
        match = _REDIRECTION.match(self.lexer.text, at, self.lexer.end)
        if match is not None:
            return self.redirect(at, match.group())
        if char in ";&|()":
            return self.operator(at, char)
        return self.word(at)

    def newline(self, at: int) -> int:
        self.finish("\n")
        at += 1
        for document in self.open_documents:
            at = self.body(document, at)
        self.open_documents.clear()
        return at

    def body(self, document: HereDocument, at: int) -> int:
        """Read a here-document's lines, and return the offset after the line with its delimiter."""
        lexer = self.lexer
        document.start = at
        while at < lexer.end:
            end = lexer.text.find("\n", at, lexer.end)
            end = lexer.end if end < 0 else end
            line = lexer.text[at:end].rstrip("\r")
            document.end = at
            if (line.lstrip("\t") if document.strips_tabs else line) == document.delimiter:
                self.expansions_in(document)
                return min(end + 1, lexer.end)
            at = end + 1
        document.end = lexer.end
        return lexer.end

    def expansions_in(self, document: HereDocument) -> None:
        if document.literal:
            return
        position, ignored = document.start, _WordBuilder()
        while position < document.end:
            char = self.lexer.text[position]
            if char in "$`":
                position = max(self.lexer.expansion(position, ignored, '"'), position + 1)
            else:
                position += 2 if char == "\\" else 1

    def redirect(self, at: int, operator: str) -> int:
        if operator in ("<", ">") and self.lexer.char(at + 1) == "(":
            return self.lexer.commands(at + 2, ")", captured=True)
        words = self.command.words
        if words and words[-1].end == at and words[-1].text.isdigit():  # the number of what is redirected
            words.pop()
        self.redirection = operator
        return at + len(operator)

    def operator(self, at: int, char: str) -> int:
        lexer = self.lexer
        if char == "(":
            if self.starts_array(at):
                self.finish("")
                self.command = Command(captured=self.captured, is_array=True)
            else:
                self.subshells += 1
                self.finish("")
            return at + 1
        if char == ")":
            self.subshells = max(0, self.subshells - (not self.in_array))
            self.finish("")
            return at + 1
        doubled = lexer.char(at + 1) == char
        self.finish("|" if char == "|" and not doubled else char)
        return at + 2 if doubled else at + 1

    def starts_array(self, at: int) -> bool:
        words = self.command.words
        return bool(words) and words[-1].end == at and _ARRAY.fullmatch(words[-1].text) is not None

    def word(self, at: int) -> int:
        word, end = self.lexer.word(at, self.closer)
        if end == at:  # a character that starts no word, such as a backtick inside backticks
            return at + 1
        if not self.redirection:
            self.command.words.append(word)
        elif self.redirection.startswith("<<") and self.redirection != "<<<":
            document = HereDocument(word.text, word.quoted or "\\" in self.lexer.text[at:end], "-" in self.redirection)
            self.open_documents.append(document)
            self.command.here_documents.append(document)
        else:
            self.command.targets.append((self.redirection, word))
        self.redirection = ""
        return end

    def finish(self, separator: str) -> None:
        command = self.command
        self.redirection = ""
        command.piped = separator == "|"
        command.words = without_keywords(command.words)
        if command.words or command.targets or command.here_documents:
            self.lexer.script.commands.append(command)
        self.command = Command(captured=self.captured)
