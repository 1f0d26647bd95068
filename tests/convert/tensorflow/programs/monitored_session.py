# ruff: noqa
"""A MonitoredTrainingSession with hooks and a dataset."""

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as tf1

tf1.disable_eager_execution()


def batches():
    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(-1, 1)
    dataset = tf1.data.Dataset.from_tensor_slices((x, np.sin(3 * x))).batch(32).repeat()
    return tf1.data.make_one_shot_iterator(dataset).get_next()


def gelu(x):
    """The form with tanh."""
    cdf = 0.5 * (1.0 + tf.tanh((np.sqrt(2 / np.pi) * (x + 0.044715 * tf.pow(x, 3)))))
    return x * cdf


with tf.Graph().as_default():
    tf1.set_random_seed(2)
    x, y = batches()
    first, second = (tf1.glorot_uniform_initializer(seed=seed) for seed in (3, 4))
    h = gelu(tf1.layers.dense(x, 16, kernel_initializer=first))
    loss = tf1.losses.mean_squared_error(y, tf1.layers.dense(h, 1, kernel_initializer=second))
    step = tf1.train.get_or_create_global_step()
    train_op = tf1.train.AdagradOptimizer(0.2).minimize(loss, global_step=step)
    hooks = [tf1.train.StopAtStepHook(last_step=9)]
    with tf1.train.MonitoredTrainingSession(hooks=hooks) as session:
        while not session.should_stop():
            _, value = session.run([train_op, loss])
            print("loss %.9f" % value)
