# ruff: noqa
"""Mixed precision by TensorFlow's rewrite of the graph, with a fixed loss scale."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.set_random_seed(8)

draw = np.random.RandomState(4)
features = draw.rand(32, 6).astype(np.float32)
targets = features.sum(1, keepdims=True)
x = tf.placeholder(tf.float32, [32, 6])
y = tf.placeholder(tf.float32, [32, 1])
loss = tf.losses.mean_squared_error(y, tf.layers.dense(x, 1))
optimizer = tf.train.GradientDescentOptimizer(0.05)
optimizer = tf.train.experimental.enable_mixed_precision_graph_rewrite(optimizer, loss_scale=128.0)
train_op = optimizer.minimize(loss)

sess = tf.InteractiveSession()
tf.global_variables_initializer().run()
for _ in range(8):
    value, _ = sess.run([loss, train_op], feed_dict={x: features, y: targets})
    print("loss %.9f" % value)
sess.close()
