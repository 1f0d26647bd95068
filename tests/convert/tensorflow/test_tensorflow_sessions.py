"""Every way to make a session gets the NPU's configuration; what cannot be told is reported."""

from __future__ import annotations

import pytest
from tensorflow_cases import after, codes, left, outcome

from jumar.convert.model.outcome import Failure, Success

LINES = """\
custom_op = {0}.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = 'NpuOptimizer'
{0}.graph_options.rewrite_options.remapping = RewriterConfig.OFF
{0}.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
"""
NEW = "npu_config = tf.ConfigProto()\n" + LINES.format("npu_config")
IMPORTS = "import tensorflow as tf\nfrom npu_bridge.npu_init import RewriterConfig\n"


@pytest.mark.parametrize(
    ("written", "becomes"),
    [
        ("sess = tf.Session()\n", NEW + "sess = tf.Session(config=npu_config)\n"),
        ("sess = tf.Session(graph=g)  # g\n", NEW + "sess = tf.Session(graph=g, config=npu_config)  # g\n"),
        ("sess = tf.Session('', g, None)\n", NEW + "sess = tf.Session('', g, npu_config)\n"),
        ("s = tf.InteractiveSession()\n", NEW + "s = tf.InteractiveSession(config=npu_config)\n"),
        (
            "with tf.Graph().as_default(), tf.Session() as s:\n    pass\n",
            NEW + "with tf.Graph().as_default(), tf.Session(config=npu_config) as s:\n    pass\n",
        ),
        (
            "c = tf.ConfigProto(allow_soft_placement=True)\nc.log_device_placement = True\ns = tf.Session(config=c)\n",
            "c = tf.ConfigProto(allow_soft_placement=True)\n" + LINES.format("c")
            + "c.log_device_placement = True\ns = tf.Session(config=c)\n",
        ),
        (
            "s = tf.Session(config=tf.ConfigProto(allow_soft_placement=True, gpu_options=tf.GPUOptions()))\n",
            "npu_config = tf.ConfigProto(allow_soft_placement=True)\n" + LINES.format("npu_config")
            + "s = tf.Session(config=npu_config)\n",
        ),
        (
            "c = tf.ConfigProto(graph_options=tf.GraphOptions(build_cost_model=1))\ns = tf.Session(config=c)\n",
            "c = tf.ConfigProto(graph_options=tf.GraphOptions(build_cost_model=1))\n" + LINES.format("c")
            + "s = tf.Session(config=c)\n",
        ),
    ],
)  # fmt: skip
def test_a_session_gets_the_configuration(written: str, becomes: str) -> None:
    assert after("import tensorflow as tf\n" + written) == IMPORTS + becomes


@pytest.mark.parametrize(
    "call",
    [
        "tf.train.MonitoredTrainingSession(hooks=[])",
        "tf.train.SingularMonitoredSession()",
        "tf.train.ChiefSessionCreator(master='')",
        "tf.train.Supervisor(logdir=d).managed_session()",
    ],
)
def test_sessions_of_training_helpers_get_it_too(call: str) -> None:
    assert "config=npu_config)" in after(f"import tensorflow as tf\nmade = {call}\n")


@pytest.mark.parametrize(
    "code",
    [
        "make = lambda: tf.Session()\n",
        "def run(s=tf.Session()):\n    pass\n",
        "if a:\n    pass\nelif tf.Session().run(x):\n    pass\n",
        "if a: s = tf.Session()\n",
        "class A:\n    s = tf.Session()\n",
    ],
)
def test_where_no_statement_fits_before_it_the_configuration_is_one_argument(code: str) -> None:
    found = after("import tensorflow as tf\n" + code)
    assert "custom_optimizers=[RewriterConfig.CustomGraphOptimizer(name='NpuOptimizer')]" in found
    assert "remapping=RewriterConfig.OFF, memory_optimization=RewriterConfig.OFF" in found


def test_a_configuration_that_a_function_makes_is_prepared_there() -> None:
    code = "def make():\n    return tf.ConfigProto(inter_op_parallelism_threads=1)\n\n\ns = tf.Session(config=make())\n"
    found = after("import tensorflow as tf\n" + code)
    assert "    npu_config = tf.ConfigProto(inter_op_parallelism_threads=1)\n" in found
    assert "    return npu_config\n" in found
    assert found.endswith("s = tf.Session(config=make())\n")


def test_a_configuration_that_may_be_none_is_made_where_it_is() -> None:
    code = "class A:\n    def __init__(self, config=None):\n        self.s = tf.Session(config=config)\n"
    assert "        if config is None:\n            config = tf.ConfigProto()\n" in after(
        "import tensorflow as tf\n" + code
    )


def test_names_are_followed_through_aliases_and_from_imports() -> None:
    head = "import tensorflow.compat.v1 as tf\nfrom tensorflow.compat.v1 import Session as S\n"
    assert after(head + "Make = tf.Session\nMake(), S()\n").endswith("Make(config=npu_config), S(config=npu_config)\n")


def test_both_branches_of_an_optional_import_are_one_module() -> None:
    head = "try:\n    import tensorflow.compat.v1 as tf\nexcept ImportError:\n    import tensorflow as tf\n"
    assert "s = tf.Session(config=npu_config)" in after(head + "s = tf.Session()\n")


def test_a_configuration_for_an_estimator_stays() -> None:
    code = "c = tf.ConfigProto()\nr = tf.estimator.RunConfig(session_config=c)\n"
    assert "NpuOptimizer" not in after("import tensorflow as tf\n" + code)


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("s = tf.Session(config=library.config())\n", "JM642"),
        ("s = tf.Session(**options)\n", "JM642"),
        ("def f(c):\n    return tf.Session(config=c)\n", "JM642"),
        ("run(tf.Session)\n", "JM642"),
        ("class Mine(tf.Session):\n    pass\n", "JM642"),
        ("s = getattr(tf, 'Session')()\n", "JM664"),
        ("from tensorflow import *\n", "JM664"),
        ("tf = other if a else tf\ns = tf.Session()\n", "JM664"),
        ("exec('s = tf.Session()')\n", "JM664"),
    ],
)
def test_what_cannot_be_told_is_reported_and_stays(code: str, rule: str) -> None:
    text = "import tensorflow as tf\ntf.placeholder(tf.float32)\n" + code
    assert rule in {finding.code for finding in left(text)}
    assert after(text) == text


def test_a_session_that_has_it_already_stays() -> None:
    text = IMPORTS + NEW + "with tf.Session(config=npu_config) as s:\n    pass\n"
    assert after(text) == text


def test_an_import_of_everything_serves() -> None:
    text = "import tensorflow as tf\nfrom npu_bridge.npu_init import *\ns = tf.Session()\n"
    assert after(text).count("import") == 2


def test_with_compat_the_names_come_from_the_adapter_of_tensorflow_2() -> None:
    found = after("import tensorflow.compat.v1 as tf\ns = tf.Session()\n", compat=True)
    head = (
        "from npu_device.compat.v1.npu_init import RewriterConfig\nimport npu_device\nnpu_device.compat.enable_v1()\n"
    )
    assert found.startswith("import tensorflow.compat.v1 as tf\n" + head)


def test_python_2_is_refused_in_a_sentence() -> None:
    found = outcome("import tensorflow as tf\nprint 'loss'\n")
    assert isinstance(found, Failure)
    assert "Python 3 is needed" in found.error


def test_comments_switch_rules_off() -> None:
    text = "import tensorflow as tf\ns = tf.Session()  # jumar: ignore[JM641]\n"
    assert after(text) == text


def test_a_script_of_pytorch_that_uses_tensorboard_is_pytorchs() -> None:
    found = outcome("import torch\nimport tensorflow as tf\ns = tf.Session()\nx.cuda()\n")
    assert isinstance(found, Success)
    assert codes(found) == {"JM103", "JM107"}


def test_rules_for_cuda_do_not_run_over_tensorflow() -> None:
    assert after("import tensorflow as tf\ncuda = model.cuda()\n") == "import tensorflow as tf\ncuda = model.cuda()\n"
