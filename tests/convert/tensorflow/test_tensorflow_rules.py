"""Each rule for TensorFlow: what it writes, what it reports, and what it leaves."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tensorflow_cases import after, codes, left, outcome

from jumar.convert.rules.tensorflow.program.order import ORDER

sys.path.insert(0, str(Path(__file__).parents[3] / "scripts"))

from convert_tables.examples import converted

V1 = "import os\nimport tensorflow.compat.v1 as tf\nimport horovod.tensorflow as hvd\n"
V2 = "import tensorflow as tf\nimport horovod.tensorflow as hvd\n"


def body(code: str, head: str = V1, **options: object) -> str:
    """The converted code without the imports at its top."""
    lines = after(head + code, **options).splitlines(keepends=True)  # type: ignore[arg-type]
    tops = ("import ", "from ", "    ", ")", "npu_device.open")
    while lines and lines[0].startswith(tops):
        del lines[0]
    return "".join(lines)


@pytest.mark.parametrize("code", [step.code for step in ORDER])
def test_the_example_of_a_page_becomes_what_the_page_promises(code: str) -> None:
    found = converted(code)
    assert found is not None
    assert found.rule.safety is None or found.agrees


@pytest.mark.parametrize(
    ("written", "becomes"),
    [
        ("n = hvd.size() * hvd.local_size() + hvd.local_rank()\n",
         "n = get_rank_size() * get_local_rank_size() + get_local_rank_id()\n"),
        ("o = hvd.DistributedOptimizer(o, name='d')  # all\n", "o = npu_distributed_optimizer_wrapper(o)  # all\n"),
        ("g = hvd.allreduce(g, average=False)\n", 'g = hccl_ops.allreduce(g, "sum")\n'),
        ("g = hvd.allgather(g)\n", "g = hccl_ops.allgather(g, get_rank_size())\n"),
        ("c = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)]\n", "c = [NPUBroadcastGlobalVariablesCallback(0)]\n"),
        ("tf.config.experimental.set_memory_growth(g, True)\nx = 1\n", "x = 1\n"),
        ("if g:\n    tf.config.set_visible_devices(g[0], 'GPU')  # pin\n", "if g:\n    pass  # pin\n"),
        ("with tf.device('/device:GPU:%d' % i):\n    pass\n", "with tf.device(None):\n    pass\n"),
        ("h = tf.nn.dropout(h, rate=a + b)\n", "h = npu_ops.dropout(h, keep_prob=1 - (a + b))\n"),
        ("y = tf.nn.gelu(x, approximate=True)\n", "y = npu_unary_ops.gelu(x)\n"),
        ("os.environ['CUDA_VISIBLE_DEVICES'] = \"3\"\n", "os.environ['ASCEND_DEVICE_ID'] = \"3\"\n"),
        ("o = tf.train.experimental.enable_mixed_precision_graph_rewrite(o)\n",
         "o = NPULossScaleOptimizer(o, ExponentialUpdateLossScaleManager(init_loss_scale=2**15, "
         "incr_every_n_steps=2000, decr_every_n_nan_or_inf=1, decr_ratio=0.5))\n"),
        ("e = tf.estimator.Estimator(f, d)\n", "e = NPUEstimator(f, d, config=NPURunConfig())\n"),
        ("e = tf.keras.estimator.model_to_estimator(m)\n", "e = model_to_npu_estimator(m)\n"),
        ("s = tf.distribute.MirroredStrategy(['/gpu:0'])  # two\n", "s = tf.distribute.get_strategy()  # two\n"),
    ],
)  # fmt: skip
def test_a_rule_writes_the_adapters_words(written: str, becomes: str) -> None:
    kept = "" if "hvd." in written else "hvd.allreduce_async(x)\n"
    assert body(written + kept) == becomes + kept


@pytest.mark.parametrize(
    ("written", "becomes"),
    [
        ("n = hvd.size()\n", "n = int(os.getenv('RANK_SIZE', '1'))\n"),
        ("hvd.init()\nx = 1\n", "x = 1\n"),
        ("hvd.broadcast_variables(v, root_rank=0)\n", "npu_device.distribute.broadcast(v, root_rank=0)\n"),
        ("m = hvd.allreduce(m)\n", 'm = npu_device.distribute.all_reduce(m, "mean")\n'),
        ("o = tf.keras.mixed_precision.LossScaleOptimizer(o)\n",
         "o = npu_device.train.optimizer.NpuLossScaleOptimizer(o)\n"),
    ],
)  # fmt: skip
def test_a_script_of_tensorflow_2_gets_the_words_of_npu_device(written: str, becomes: str) -> None:
    kept = "" if "hvd." in written else "hvd.allreduce_async(x)\n"
    assert body("def f():\n    " + written.replace("\n", "\n    ").rstrip() + "\n" + kept, V2) == (
        "def f():\n    " + becomes.replace("\n", "\n    ").rstrip() + "\n" + kept
    )


def test_optimizers_are_wrapped_where_the_strategy_is_named() -> None:
    code = "o = tf.train.AdamOptimizer(\n    0.1,  # rate\n)\n"
    wrapped = "o = npu_distributed_optimizer_wrapper(tf.train.AdamOptimizer(\n    0.1,  # rate\n))\n"
    assert body(code, "import tensorflow.compat.v1 as tf\n", strategy="tf_strategy") == wrapped
    assert body(code, "import tensorflow.compat.v1 as tf\n") == code


def test_collectives_are_initialised_in_a_graph_of_their_own() -> None:
    found = body("def main():\n    hvd.init()\n    hvd.shutdown()\n")
    assert "    with init_graph.as_default():\n        npu_init = npu_ops.initialize_system()\n" in found
    assert "    init_session = tf.Session(graph=init_graph, config=init_config)\n" in found
    assert found.endswith("    init_session.run(npu_shutdown)\n")


def test_the_import_of_horovod_stays_where_something_of_it_is_left() -> None:
    assert "horovod" not in after(V1 + "r = hvd.rank()\n")
    assert "import horovod.tensorflow as hvd\n" in after(V1 + "r = hvd.rank()\nhvd.elastic.run(f)\n")


def test_the_npu_is_opened_in_the_entry_script_only() -> None:
    model = "import tensorflow as tf\n\n\ndef net():\n    return tf.keras.Sequential()\n"
    assert after(model) == model
    entry = model + "\n\nif __name__ == '__main__':\n    net().fit(x, y)\n"
    head = "import tensorflow as tf\nimport npu_device\nnpu_device.open().as_default()\n"
    assert after(entry) == entry.replace("import tensorflow as tf\n", head, 1)


def test_smaller_batches_are_cut_only_on_request() -> None:
    code = "import tensorflow as tf\nd = tf.data.Dataset.range(9).batch(\n    4  # four\n)\n"
    assert after(code) == code
    assert after(code, unsafe=True) == code.replace("4  #", "4, drop_remainder=True  #")


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("e = tf.estimator.DNNClassifier([4], c)\n", "JM644"),
        ("s = tf.distribute.experimental.ParameterServerStrategy()\n", "JM645"),
        ("e = tf.estimator.tpu.TPUEstimator(f)\n", "JM646"),
        ("tf.keras.backend.clear_session()\nx = tf.keras.Model()\n", "JM647"),
        ("hvd.elastic.run(f)\n", "JM649"),
        ("def gelu(x):\n    return x * 0.5 * (1.0 + tf.erf(x / 1.414))\n", "JM652"),
        ("with tf.device(place):\n    pass\n", "JM653"),
        ("os.environ['CUDA_VISIBLE_DEVICES'] = '-1'\n", "JM654"),
        ("os.environ['CUDA_VISIBLE_DEVICES'] = '0,1'\n", "JM654"),
        ("p = tf.keras.mixed_precision.experimental.Policy('mixed_float16')\n", "JM657"),
        ("@tf.function(jit_compile=True)\ndef f():\n    pass\n", "JM658"),
        ("y = tf.contrib.layers.fully_connected(x, 3)\n", "JM659"),
        ("y = tf.py_func(f, [x], tf.float32)\n", "JM660"),
        ("y = tf.where(x)\n", "JM663"),
        ("b = tf.train.shuffle_batch([x], 3, 9, 3)\n", "JM665"),
        ("x = tf.placeholder(tf.float64, [3])\n", "JM666"),
        ("names = ['/gpu:0']\n", "JM667"),
        ("import keras\n", "JM668"),
        ("c.graph_options.rewrite_options.constant_folding = tf.OFF\n", "JM669"),
    ],
)
def test_what_has_no_counterpart_is_reported_with_its_line(code: str, rule: str) -> None:
    text = V1 + "hvd.allreduce_async(x)\n" + code
    found = [finding for finding in left(text) if finding.code == rule]
    assert found
    assert 4 <= (found[0].where.line or 0) <= len(text.splitlines())
    assert all(finding.action for finding in found)


def test_a_script_without_a_session_says_nothing() -> None:
    found = outcome("import tensorflow as tf\n\n\ndef double(x):\n    return tf.add(x, x)\n")
    assert codes(found) == set()
