"""What the reader of TensorFlow scripts follows, and where it says that it does not know."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.base.errors import ScriptError
from jumar.base.findings import Severity
from jumar.tfadapter.checks import Given, check
from jumar.tfadapter.options import UNKNOWN, Kind, Setting, options_of
from jumar.tfadapter.source import ScriptOptions, read_operators_file, read_script, read_shell, read_text

HEAD = """
import os, json
import tensorflow as tf
config = tf.ConfigProto()
custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = "NpuOptimizer"
"""


def read(text: str) -> ScriptOptions:
    return read_text(text, Path("train.py"))


def values(text: str) -> dict[str, object]:
    return {one.name: one.value for one in read(HEAD + text).settings}


VALUES = {
    'tf.compat.as_bytes(os.path.join("/data", "dump"))': b"/data/dump",
    'tf.compat.as_bytes("{}/{name}".format("/data", name="dump"))': b"/data/dump",
    'tf.compat.as_bytes("/%s/%s" % ("data", "dump"))': b"/data/dump",
    "tf.compat.as_bytes(f\"/data/{'dump'!s}\")": b"/data/dump",
    'tf.compat.as_bytes(f"{31:03d}")': b"031",
    "tf.compat.as_bytes(str(26 * 1024 ** 3))": b"27917287424",
    'tf.compat.as_bytes(json.dumps({"output": "/data", "aicpu": "on"}))': b'{"output": "/data", "aicpu": "on"}',
    '"/DATA/dump".lower().encode()': b"/data/dump",
    'b"/data" + b"/dump"': b"/data/dump",
    '"/data/dump".encode() if False or True else b"/x"': UNKNOWN,
    'b"/x" if None else b"/y"': b"/y",
    'b"/x" if FLAGS.a else b"/x"': b"/x",
    '["/x", "/y"][1].encode()': b"/y",
    '{"a": b"/x"}["a"]': b"/x",
    '{"a": b"/x"}.get("b", b"/z")': b"/z",
    "os.environ['X'].encode()": UNKNOWN,
    "tf.compat.as_bytes(str([FLAGS.a]))": UNKNOWN,
    "tf.compat.as_bytes(str(('a', 1)))": b"('a', 1)",
    "b'x' * 10 ** 9": UNKNOWN,
    "tf.compat.as_bytes('%9999999999d' % 3)": UNKNOWN,
    "tf.compat.as_bytes(f'{3:>9999999999}')": UNKNOWN,
    "tf.compat.as_bytes('%d' % 'x')": UNKNOWN,
    "b'x'[7]": UNKNOWN,
    "1 / 0": UNKNOWN,
}


@pytest.mark.parametrize("expression", VALUES)
def test_an_expression_is_read_or_not_known(expression: str) -> None:
    assert values(f'custom_op.parameter_map["dump_path"].s = {expression}')["dump_path"] == VALUES[expression]


CONSTANTS = {
    'class C:\n    mode = "a"\nNPURunConfig(precision_mode=C.mode)': "a",
    'class C:\n    mode = "a"\nC.mode = FLAGS.mode\nNPURunConfig(precision_mode=C.mode)': UNKNOWN,
    'M = "a"\ndef f():\n    global M\n    M = FLAGS.m\nNPURunConfig(precision_mode=M)': UNKNOWN,
    'a, b = "a", "b"\nNPURunConfig(precision_mode=b)': "b",
    'c = {"precision_mode": "a"}\nc["precision_mode"] = FLAGS.m\nNPURunConfig(**c)': UNKNOWN,
    'c = {}\nc["precision_mode"] = "a"\nNPURunConfig(**c)': "a",
    'c = {}\nc.update(precision_mode="a")\nNPURunConfig(**c)': "a",
    'c = {"hcom_parallel": True}\nNPURunConfig(**{**c, "precision_mode": "a"})': "a",
    'with open("x") as m:\n    NPURunConfig(precision_mode=m)': UNKNOWN,
    'def make(mode):\n    return NPURunConfig(precision_mode=mode)\nmake("a")': "a",
    'def make(mode="a"):\n    return NPURunConfig(precision_mode=mode)\nmake()': "a",
    'def make(mode="a"):\n    return NPURunConfig(precision_mode=mode)': UNKNOWN,
    '@configurable\ndef make(mode="a"):\n    return NPURunConfig(precision_mode=mode)\nmake()': UNKNOWN,
    'def make(mode="a"):\n    return NPURunConfig(precision_mode=mode)\nmake(*FLAGS.all)': UNKNOWN,
    'def make(m):\n    return NPURunConfig(precision_mode=m)\ndef main():\n    k = "a"\n    make(k)': "a",
    'k = "b"\ndef make(m):\n    return NPURunConfig(precision_mode=m)\ndef main(k):\n    make(k)': UNKNOWN,
    'async def go():\n    async with x:\n        NPURunConfig(precision_mode="a")': "a",
    'match x:\n    case 1:\n        NPURunConfig(precision_mode="a")': "a",
}


@pytest.mark.parametrize("text", CONSTANTS)
def test_a_name_is_followed_or_not_known(text: str) -> None:
    assert values(text)["precision_mode"] == CONSTANTS[text]


FORMS = {
    "attribute of self": "class A:\n    def __init__(self):\n        self.m = custom_op.parameter_map\n"
    '    def go(self):\n        self.m["precision_mode"].s = b"a"',
    "getattr": 'getattr(custom_op, "parameter_map")["precision_mode"].s = b"a"',
    "table": 'for k, (f, v) in {"precision_mode": ("s", b"a")}.items():\n    setattr(custom_op.parameter_map[k], f, v)',
    "zip": 'for k, v in zip(["precision_mode"], [b"a"]):\n    custom_op.parameter_map[k].s = v',
    "annotated": 'm: object = custom_op.parameter_map\nm["precision_mode"].s = b"a"',
    "tuple": 'm, n = custom_op.parameter_map, 1\nm["precision_mode"].s = b"a"',
    "two functions": "def put(m, k, v):\n    m[k].s = v\n    return m.parameter_map\n"
    'def main():\n    put(custom_op.parameter_map, "precision_mode", b"a")',
}


CLASSES = [
    "from npu_bridge.npu_init import NPURunConfig as Config\nConfig({})",
    "Config = npu_config.NPURunConfig\nConfig({})",
    "npu_config.NPURunConfig({})",
    "estimator = Estimator(config=NPURunConfig({}))",
    "make = functools.partial(NPURunConfig, {})",
]


@pytest.mark.parametrize("text", CLASSES)
def test_a_class_is_known_under_another_name(text: str) -> None:
    assert values(text.format('precision_mode="a"')) == {"precision_mode": "a"}


@pytest.mark.parametrize("form", FORMS)
def test_the_form_does_not_matter(form: str) -> None:
    assert values(FORMS[form]) == {"precision_mode": b"a"}


def test_attributes_of_the_device_are_set_by_name_too() -> None:
    text = 'o = npu.global_options()\nfor k, v in {"work_path": "/x"}.items():\n    setattr(o.aoe_config, k, v)'
    assert values(text) == {"aoe_config.work_path": "/x"}
    assert len(read("setattr(npu.global_options(), FLAGS.k, 1)").unread) == 1


def test_arguments_without_names_are_those_of_the_documented_order() -> None:
    assert values('NPURunConfig(1000, None, "/m")') == {
        "iterations_per_loop": 1000, "profiling_config": None, "model_dir": "/m"
    }  # fmt: skip
    assert values('DumpConfig(True, "/d", "0|5", "all")') == {
        "enable_dump": True, "dump_path": "/d", "dump_step": "0|5", "dump_mode": "all"
    }  # fmt: skip


def test_sessions_with_one_name_are_apart() -> None:
    """The example of `session_device_id` in the vendor's pages: each ConfigProto has its own optimizer."""
    again = HEAD.partition("config =")[2].replace("\n", "\n", 1)
    text = (
        f'{HEAD}custom_op.parameter_map["session_device_id"].i = 0\n'
        f'config ={again}custom_op.parameter_map["session_device_id"].i = 1\n'
    )
    script = read(text)
    assert len(script.sessions) == 2
    assert len({one.group for one in script.settings}) == 2
    assert "JM610" not in [one.code for one in check(Given(settings=script.settings, scripts=[script]))]


def test_a_function_that_is_called_twice_is_told_once() -> None:
    text = 'def make(op):\n    op.parameter_map["precision_mod"].s = b"x"\nmake(a)\nmake(b)\n'
    script = read(text)
    assert [one.code for one in check(Given(settings=script.settings, scripts=[script]))] == ["JM601"]


@given(st.data())
def test_values_come_back_through_names_maps_and_functions(data: st.DataObject) -> None:
    option = data.draw(st.sampled_from(sorted(options_of("session"))))
    kind: Kind = options_of("session")[option].kind
    text = st.text(st.characters(codec="utf-8"), max_size=12).map(str.encode)
    value = data.draw({"s": text, "i": st.integers(-(2**40), 2**40), "b": st.booleans()}[kind])
    way = data.draw(st.sampled_from(["plain", "name", "loop", "function", "setattr", "branch", "class"]))
    lines = {
        "plain": f"custom_op.parameter_map[{option!r}].{kind} = {value!r}",
        "name": f"v = {value!r}\nk = {option!r}\nm = custom_op.parameter_map\nm[k].{kind} = v",
        "loop": f"for k, v in {{{option!r}: {value!r}}}.items():\n    custom_op.parameter_map[k].{kind} = v",
        "function": f"def f(o, k, v):\n    o.parameter_map[k].{kind} = v\nf(custom_op, {option!r}, v={value!r})",
        "setattr": f"setattr(custom_op.parameter_map[{option!r}], {kind!r}, {value!r})",
        "branch": f"if FLAGS.x:\n    custom_op.parameter_map[{option!r}].{kind} = {value!r}",
        "class": f"class C:\n    v = {value!r}\ncustom_op.parameter_map[{option!r}].{kind} = C.v",
    }[way]
    (setting,) = read(HEAD + lines).settings
    assert (setting.name, setting.value, setting.kind) == (option, value, kind)
    assert setting.is_conditional == (way == "branch")


FLAGS = {
    'p.add_argument("--precision-mode", default="a")\nargs = p.parse_args()\nUSE(args.precision_mode)': "a",
    'p.add_argument("-m", "--mode", default="a")\nx, _ = p.parse_known_args()\nUSE(x.mode)': "a",
    'p.add_argument("--a", dest="mode", default="a")\nx = p.parse_args()\nUSE(x.mode)': "a",
    'flags.DEFINE_string("mode", "a", "help")\nUSE(FLAGS.mode)': "a",
    'flags.DEFINE_string("mode", default="a", help="")\nF = tf.app.flags.FLAGS\nUSE(F.mode)': "a",
    'flags.DEFINE_string("mode", "a", "")\nUSE("%s" % FLAGS.mode)': "a",
    'flags.DEFINE_string("mode", "a", "")\nUSE(other.mode)': UNKNOWN,
    'flags.DEFINE_string("mode", "a", "")\nflags.DEFINE_string("mode", "b", "")\nUSE(FLAGS.mode)': UNKNOWN,
    'p.add_argument("--mode")\nx = p.parse_args()\nUSE(x.mode)': UNKNOWN,
}


@pytest.mark.parametrize("text", FLAGS)
def test_a_flag_of_the_command_line_has_its_default_and_no_value(text: str) -> None:
    (setting,) = read(text.replace("USE(", "NPURunConfig(precision_mode=")).settings
    assert (setting.value, setting.default) == (UNKNOWN, FLAGS[text])


def test_a_default_that_is_wrong_is_a_warning_unless_it_stands_in_a_condition() -> None:
    text = 'flags.DEFINE_string("mode", "fast", "")\n{}NPURunConfig(precision_mode=FLAGS.mode)'
    (finding,) = check(Given(settings=read(text.format("")).settings))
    assert (finding.code, finding.severity) == ("JM603", Severity.WARNING)
    assert "unless the command line gives another value" in finding.message
    assert check(Given(settings=read(text.format("if FLAGS.mode: ")).settings)) == []
    assert check(Given(settings=read(text.format("").replace("fast", "")).settings)) == []


# --- files


def test_notebooks_are_read(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# custom_op.parameter_map['x'].i = 1"]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "!ls\n", "import tensorflow as tf\n"]},
        {"cell_type": "code", "source": "%%bash\nexport AOE_MODE=2"},
        {"cell_type": "code", "source": 'NPURunConfig(precision_mode="force_fp16")'},
    ]
    path = tmp_path / "train.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    assert [one.value for one in read_script(path).settings] == ["force_fp16"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cells": 3}', "[" * 9999])
def test_what_is_no_notebook_is_told(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text(text)
    with pytest.raises(ScriptError, match="must be a notebook"):
        read_script(path)


def test_a_notebook_with_odd_cells_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text('{"cells": [3, {"cell_type": "code"}, {"cell_type": "code", "source": 3}]}')
    assert read_script(path).settings == []


@pytest.mark.parametrize("text", ["print 3", "x = (", "\x00", "if x:\n\ty\n        z", "é = )"])
def test_a_damaged_script_is_a_sentence(text: str) -> None:
    with pytest.raises(ScriptError, match="the file must be valid Python 3"):
        read(text)


@pytest.mark.parametrize(
    "text", ["a" + ".b" * 20000, "(" * 300, "x = " + "-" * 20000 + "1", "x = " + "[" * 90 + "]" * 90]
)
def test_a_deep_script_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ScriptError):
        assert read(text).settings == []


def test_what_a_shell_gives_to_aoe_is_read(tmp_path: Path) -> None:
    path = tmp_path / "tune.sh"
    path.write_text(
        "cd x && nohup aoe --framework=3 --model model.pb \\\n    --job_type=2 --precision_mode force_fp16 "
        '--input_shape="x:1,2" --out_nodes=$OUT > log 2>&1 --output_type=FP32\n'
        "AOE_MODE=2 python3 src/train.py --precision_mode=no\n"
    )
    script = read_shell(path)
    assert [(one.style, one.name, one.value, one.line) for one in script.settings] == [
        ("command", "job_type", "2", 1),
        ("command", "precision_mode", "force_fp16", 1),
        ("command", "input_shape", "x:1,2", 1),
        ("command", "out_nodes", UNKNOWN, 1),
        ("environment", "AOE_MODE", "2", 3),
    ]
    assert script.runs == {"train.py"}


def test_a_shell_sets_a_variable_again_for_another_program(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text("export ASCEND_DEVICE_ID=0\npython a.py &\nexport ASCEND_DEVICE_ID=1\npython a.py &\n")
    assert check(Given(settings=read_shell(path).settings)) == []


def test_the_file_of_operators_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ops.json"
    path.write_text('{"tune_ops_name": ["conv1"], "tune_op_type": ["Conv2D"]}')
    settings: list[Setting] = read_operators_file(path).settings
    (finding,) = check(Given(settings=settings))
    assert finding.evidence["near"] == "tune_ops_type"
    for text in ("[1]", "{", "[" * 99999):
        path.write_text(text)
        with pytest.raises(ScriptError, match="must be"):
            read_operators_file(path)
    with pytest.raises(ScriptError, match="cannot be read"):
        read_operators_file(tmp_path)


IMPORTS = {
    "from conf import MODE": "MODE",
    "from conf import MODE as m": "m",
    "from conf import *": "MODE",
    "import conf": "conf.MODE",
    "import conf as c": "c.MODE",
    "from pack import conf": "conf.MODE",
    "from .pack.conf import MODE": "MODE",
    "from . import conf": "conf.MODE",
    "import conf\nconf.OTHER = 3": "conf.MODE",
}


@pytest.mark.parametrize("line", IMPORTS)
def test_constants_of_modules_beside_the_script_are_known(line: str, tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    for folder in (tmp_path, tmp_path / "pack"):
        (folder / "conf.py").write_text('MODE = "force_fp16"\n')
    path = tmp_path / "train.py"
    path.write_text(f"{line}\nNPURunConfig(precision_mode={IMPORTS[line]})\n")
    assert [one.value for one in read_script(path).settings] == ["force_fp16"]


@pytest.mark.parametrize("line", ["MODE = FLAGS.mode", "conf.MODE = 3\nMODE = conf.MODE", "def f():\n    global MODE"])
def test_a_constant_that_is_changed_is_not_known(line: str, tmp_path: Path) -> None:
    (tmp_path / "conf.py").write_text('MODE = "force_fp16"\n')
    path = tmp_path / "train.py"
    path.write_text(f"import conf\nfrom conf import MODE\n{line}\nNPURunConfig(precision_mode=MODE)\n")
    assert [one.value for one in read_script(path).settings] == [UNKNOWN]


def test_a_module_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "conf.py").write_bytes(b"\xff\x00 = (")
    path = tmp_path / "train.py"
    path.write_text("from conf import MODE\nfrom .... import x\nNPURunConfig(precision_mode=MODE)\n")
    assert [one.value for one in read_script(path).settings] == [UNKNOWN]
