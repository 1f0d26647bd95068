"""Run by an interpreter with TensorFlow: writes one model as files of every kind into the folder that it is given."""

import sys
from pathlib import Path

import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

v1, layers = tf.compat.v1, tf.keras.layers
folder = Path(sys.argv[1])


def write(name, graph):
    (folder / name).write_bytes(graph.as_graph_def().SerializeToString())


def freeze(model, name, *specs):
    call = tf.function(lambda *given: model(given[0] if len(given) == 1 else list(given), training=False))
    write(name, convert_variables_to_constants_v2(call.get_concrete_function(*specs)).graph)


def graph(name, make):
    with tf.Graph().as_default() as made:
        make()
    write(name, made)


def in_two():
    x = v1.placeholder(tf.float32, [2, 4], "x")
    scale = v1.placeholder_with_default(tf.constant(0.5), [], "scale")
    v1.placeholder(tf.float32, [2, 4], "unread")
    tf.math.top_k(x * scale, 2, name="best")
    tf.argmax(x, 1, name="place")


def with_variables():
    tf.matmul(v1.placeholder(tf.float32, [2, 4], "x"), v1.get_variable("w", [4, 2]), name="y")


def of_no_onnx():
    x = v1.placeholder(tf.float32, [2, 4], "x")
    tf.raw_ops.Igamma(a=tf.abs(x) + 1.0, x=tf.abs(x), name="y")


def random():
    tf.add(v1.placeholder(tf.float32, [2, 4], "x"), tf.random.normal([2, 4]), name="y")


def without_inputs():
    tf.identity(tf.random.normal([2, 4]), name="y")


def of_texts():
    tf.equal(v1.placeholder(tf.string, [2], "words"), "yes", name="y")


def of_any_rank():
    tf.abs(v1.placeholder(tf.float32, None, "x"), name="y")


tf.keras.utils.set_random_seed(0)
mlp = tf.keras.Sequential([tf.keras.Input((16,)), layers.Dense(32, activation="relu"), layers.Dense(4)])
cnn = tf.keras.Sequential(
    [
        tf.keras.Input((8, 8, 3), name="image"), layers.Conv2D(4, 3, padding="same", strides=2),
        layers.BatchNormalization(), layers.ReLU(), layers.GlobalAveragePooling2D(), layers.Dense(5),
    ]
)  # fmt: skip
ids, mask = tf.keras.Input((6,), dtype="int32", name="ids"), tf.keras.Input((6, 1), name="mask")
hidden = layers.Multiply()([layers.Embedding(9, 8)(ids), mask])
two = tf.keras.Model(
    [ids, mask], [layers.Dense(3, name="each")(hidden), layers.Dense(2, name="all")(layers.Flatten()(hidden))]
)

freeze(mlp, "mlp.pb", tf.TensorSpec((None, 16), tf.float32, "x"))
freeze(cnn, "cnn.pb", tf.TensorSpec((2, 8, 8, 3), tf.float32, "image"))
for make in (in_two, with_variables, of_no_onnx, random, without_inputs, of_texts, of_any_rank):
    graph(f"{make.__name__}.pb", make)
for name, model in {"cnn": cnn, "two": two}.items():
    getattr(model, "export", model.save)(str(folder / f"{name}_saved"))
    model.save(str(folder / f"{name}.keras"))
    model.save(str(folder / f"{name}.h5"))
mlp.save_weights(str(folder / "only.weights.h5"))
tf.keras.Sequential([tf.keras.Input((4,)), layers.Lambda(abs, name="own")]).save(str(folder / "code.keras"))
with tf.Graph().as_default() as old, v1.Session() as session:
    x = v1.placeholder(tf.float32, [None, 4], "x")
    y = tf.matmul(x, v1.get_variable("w", [4, 2]))
    session.run(v1.global_variables_initializer())
    v1.saved_model.simple_save(session, str(folder / "old_saved"), {"given": x}, {"product": y})
