# ruff: noqa
"""An Estimator with an input function, trained and evaluated."""

import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

tf.logging.set_verbosity(tf.logging.ERROR)
tf.disable_v2_behavior()


class Log(tf.train.SessionRunHook):
    def __init__(self, loss):
        self.loss = loss

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self.loss)

    def after_run(self, run_context, run_values):
        print("loss %.9f" % run_values.results)


def input_fn():
    draw = np.random.RandomState(5)
    x = draw.rand(64, 6).astype(np.float32)
    y = (x.sum(1) > 3).astype(np.int64)
    return tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(16)


def model_fn(features, labels, mode):
    hidden = tf.layers.dense(features, 12, activation=tf.nn.tanh)
    logits = tf.layers.dense(hidden, 2)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    if mode == tf.estimator.ModeKeys.TRAIN:
        step = tf.train.get_global_step()
        train_op = tf.train.GradientDescentOptimizer(0.3).minimize(loss, global_step=step)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[Log(loss)])
    accuracy = tf.metrics.accuracy(labels, tf.argmax(logits, 1))
    return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"accuracy": accuracy})


def main():
    strategy = tf.distribute.MirroredStrategy(devices=["/gpu:0"])
    del strategy
    session_config = tf.ConfigProto(allow_soft_placement=True, gpu_options=tf.GPUOptions(allow_growth=True))
    config = tf.estimator.RunConfig(
        tempfile.mkdtemp(),
        1,  # the seed
        session_config=session_config,
        save_summary_steps=100,
    )
    estimator = tf.estimator.Estimator(model_fn, config=config)
    estimator.train(input_fn, steps=8)
    result = estimator.evaluate(input_fn, steps=2)
    print("loss %.9f" % result["loss"])


if __name__ == "__main__":
    main()
