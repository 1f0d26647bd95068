"""Observes a TensorFlow program: modules, operators, gradients, parameters, losses, steps.

Everything here runs under Python 3.7 with NumPy and TensorFlow alone: a collector takes these files to machines where
Jumar cannot be installed. What is seen goes to a notebook that is given.
"""
