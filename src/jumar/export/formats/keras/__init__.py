"""Weights of Keras: `.h5` of Keras 2, `.weights.h5` of Keras 3, `.keras` archives."""
