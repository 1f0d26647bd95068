# ruff: noqa
"""A regression with placeholders; saved, restored into a second session, and trained on."""

import tempfile

import numpy as np
import tensorflow as tf

if hasattr(tf, "compat") and not hasattr(tf, "Session"):
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()


def build():
    x = tf.placeholder(tf.float32, [8, 3], name="x")
    y = tf.placeholder(tf.float32, [8, 1], name="y")
    w = tf.get_variable("w", [3, 1], initializer=tf.truncated_normal_initializer(seed=3))
    b = tf.get_variable("b", [1], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + b - y))
    return x, y, loss, tf.train.AdamOptimizer(0.1).minimize(loss)


class Trainer:
    def __init__(self, folder, config=None):
        self.folder = folder
        self.x, self.y, self.loss, self.train_op = build()
        self.saver = tf.train.Saver()
        self.sess = tf.Session(config=config)

    def steps(self, data, count):
        for _ in range(count):
            _, loss = self.sess.run([self.train_op, self.loss], feed_dict={self.x: data[0], self.y: data[1]})
            print("loss %.9f" % loss)


def data():
    draw = np.random.RandomState(0)
    x = draw.rand(8, 3).astype(np.float32)
    return x, (x @ np.array([[1.0], [-2.0], [0.5]], np.float32)) + 0.1


trainer = Trainer(tempfile.mkdtemp())
trainer.sess.run(tf.global_variables_initializer())
trainer.steps(data(), 5)
path = trainer.saver.save(trainer.sess, trainer.folder + "/model")
trainer.sess.close()

with tf.Session() as sess:
    trainer.saver.restore(sess, path)
    trainer.sess = sess
    trainer.steps(data(), 5)
