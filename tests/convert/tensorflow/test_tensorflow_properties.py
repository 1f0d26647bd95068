"""Random scripts of TensorFlow: comments and other lines stay, and a second conversion changes nothing."""

from __future__ import annotations

import ast
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.convert import convert_source

HEADS = (
    "import tensorflow as tf  # one\n",
    "import os  # one\nimport tensorflow.compat.v1 as tf\nimport horovod.tensorflow as hvd  # two\n",
    '"""Doc."""\nfrom __future__ import division\n\nimport numpy as np\nimport tensorflow as tf\n',
)
STATEMENTS = (
    "sess = tf.Session()  # {}\n",
    "config = tf.ConfigProto(\n    allow_soft_placement=True,  # {}\n)\nconfig.gpu_options.allow_growth = True  # {}\n",
    "with tf.device('/gpu:0'):  # {}\n    y = tf.add(x, x)\n",
    "h = tf.nn.dropout(\n    h,  # {}\n    keep_prob=0.5,\n)\n",
    "def main():  # {}\n    with tf.Session(config=tf.ConfigProto()) as sess:\n        sess.run(y)\n",
    "e = tf.estimator.Estimator(model_fn=f)  # {}\n",
    "text = 'tf.session  # no comment {}'\n",
    "if a:\n    tf.config.experimental.set_memory_growth(g, True)  # {}\n",
    "value = compute( 1,2 )   # {}\n",
    "s = tf.distribute.MirroredStrategy()  # {}\n",
)


@st.composite
def scripts(draw: st.DrawFn) -> str:
    head = draw(st.sampled_from(HEADS))
    chosen = draw(st.lists(st.sampled_from(STATEMENTS), max_size=6))
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    text = head + "".join(code.replace("{}", f"c{number}") for number, code in enumerate(chosen))
    return text.replace("\n", newline)


def comments(text: str) -> list[str]:
    return sorted(re.findall(r"#[^\r\n]*", text))


@settings(max_examples=60)
@given(scripts())
def test_comments_stay_and_a_second_conversion_changes_nothing(script: str) -> None:
    data = script.encode()
    after = convert_source(data, "train.py").after
    ast.parse(after)
    assert comments(after.decode()) == comments(script)
    assert convert_source(after, "train.py").after == after
    assert (b"\r\n" in after) == (b"\r\n" in data)
    words = ("tf.", "tensorflow", "hvd", "gpu_options")
    kept = {line for line in script.splitlines() if not any(word in line for word in words)}
    assert kept <= set(after.decode().splitlines())
