# ruff: noqa
"""A small convolutional network on images that are drawn, trained in a session."""

import os

import numpy as np
import tensorflow.compat.v1 as tf

os.environ["CUDA_VISIBLE_DEVICES"] = "0"  # one GPU

tf.disable_v2_behavior()

BATCH = 16


def images(count):
    """Bars that stand or lie, with noise."""
    draw = np.random.RandomState(7)
    labels = draw.randint(0, 2, count)
    pictures = draw.rand(count, 12, 12, 1).astype(np.float32) * 0.3
    for picture, label in zip(pictures, labels):
        at = draw.randint(2, 10)
        if label:
            picture[at, :, 0] += 1.0
        else:
            picture[:, at, 0] += 1.0
    return pictures, labels.astype(np.int64)


def network(x, keep_prob):
    with tf.device("/gpu:0"):  # the whole network
        h = tf.layers.conv2d(x, 8, 3, activation=tf.nn.relu, name="conv1")
        h = tf.layers.max_pooling2d(h, 2, 2)
        h = tf.reshape(h, [-1, 5 * 5 * 8])
        h = tf.nn.dropout(h, keep_prob)  # keep everything when evaluating
        return tf.layers.dense(h, 2, name="logits")


def main(_):
    tf.set_random_seed(11)
    x, y = images(128)
    images_in = tf.placeholder(tf.float32, [None, 12, 12, 1])
    labels_in = tf.placeholder(tf.int64, [None])
    logits = network(images_in, 1.0)
    loss = tf.losses.sparse_softmax_cross_entropy(labels_in, logits)
    train_op = tf.train.MomentumOptimizer(0.05, 0.9).minimize(loss)

    config = tf.ConfigProto(
        allow_soft_placement=True,  # where an operator has no kernel
        log_device_placement=False,
    )
    config.gpu_options.allow_growth = True  # not all of the memory
    with tf.Session(config=config) as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(12):
            at = step * BATCH % 128
            _, value = sess.run([train_op, loss], {images_in: x[at : at + BATCH], labels_in: y[at : at + BATCH]})
            print("loss %d %.9f" % (step, value))


if __name__ == "__main__":
    tf.app.run()
