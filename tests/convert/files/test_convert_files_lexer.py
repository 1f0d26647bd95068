"""The shell lexer: words with the position of every character, for any text."""

from __future__ import annotations

from file_cases import outcome_of_file
from hypothesis import given
from hypothesis import strategies as st

from jumar.convert.files.shell.lexer import read_script
from jumar.convert.files.shell.words import HOLE

SCRIPT = st.text(
    alphabet=st.one_of(
        st.sampled_from("abC_=0 \t\n\r;&|<>(){}[]$`'\"\\#-!,"), st.characters(exclude_characters="\0", codec="utf-8")
    ),
    max_size=80,
)
FRAGMENTS = ["cat <<E\n", "E\n", "$(", ")", "`", "${A:-", "}", '"', "'", "x=", "(", "\\\n", "a b ", "$((1))", "#c\n"]
TRIGGERS = ["CUDA_VISIBLE_DEVICES=1,0 ", "--device cuda ", "nvidia-smi ", "export ", "$CUDA_VISIBLE_DEVICES", "|", "\n"]
PARTS = st.lists(st.sampled_from([*FRAGMENTS, *TRIGGERS]), max_size=25).map("".join)


def commands(text: str) -> list[list[str]]:
    return [[word.text for word in command.words] for command in read_script(text).commands]


def test_quotes_joins_and_continuations() -> None:
    assert commands("a 'b c' \"d $X e\"f\\ g \\\n h # i\nj") == [["a", "b c", f"d {HOLE} ef g", "h"], ["j"]]


def test_operators_and_keywords_end_commands() -> None:
    text = "if a; then b & c && d || e | f; fi; (g; h) 2>&1 > log; { i; }"
    found = commands(text)
    names = [words[0] for words in found if words and words[0] not in ("fi", "}")]
    assert names == ["a", "b", "c", "d", "e", "f", "g", "h", "i"]


def test_pipes_and_captures_are_marked() -> None:
    script = read_script("a | b; X=$(c | d); `e`")
    marks = {command.name: (command.captured, command.piped) for command in script.commands if command.name.isalpha()}
    assert marks == {"a": (False, True), "b": (False, False), "c": (True, True), "d": (True, False), "e": (True, False)}


def test_here_documents_are_no_commands() -> None:
    script = read_script("cat <<-'E' > f.sh && x\n\tb c\n\tE\nd\n")
    assert [command.name for command in script.commands] == ["cat", "x", "d"]
    (document,) = script.commands[0].here_documents
    assert (document.literal, document.strips_tabs) == (True, True)
    assert [target.text for _, target in script.commands[0].targets] == ["f.sh"]


def test_expansions_give_the_span_of_their_name() -> None:
    text = "a $X \"${Y:-$Z}\" ${#W} '$no' <<E\n$B\nE\n"
    assert {text[each.start : each.end] for each in read_script(text).expansions} == {"X", "Y", "Z", "W", "B"}


def test_an_array_is_one_list_of_words() -> None:
    script = read_script("A=(x # c\n 'y z'\n)\nB")
    assert [(command.is_array, [word.text for word in command.words]) for command in script.commands] == [
        (False, ["A="]), (True, ["x", "y z"]), (False, ["B"]),
    ]  # fmt: skip


@given(st.one_of(SCRIPT, PARTS))
def test_any_text_is_read_and_every_character_is_where_it_is_said_to_be(text: str) -> None:
    for make in (False, True):
        for command in read_script(text, make=make).commands:
            for word in command.words:
                assert len(word.text) == len(word.offsets)
                assert 0 <= word.start <= word.end <= len(text)
                for char, offset in zip(word.text, word.offsets, strict=True):
                    assert char == HOLE or text[offset] == char


@given(st.one_of(SCRIPT, PARTS))
def test_any_script_is_converted_once(text: str) -> None:
    for target in ("npu", "agnostic"):
        once = outcome_of_file(text.encode("utf-8", "surrogatepass"), "a.sh", target=target).after
        assert outcome_of_file(once, "a.sh", target=target).after == once


@given(st.binary(max_size=200))
def test_any_bytes_without_triggers_come_back(data: bytes) -> None:
    from jumar.convert.files.draft.plain_text import decode

    text = decode(data)
    assert text.encode(text.text) == data
