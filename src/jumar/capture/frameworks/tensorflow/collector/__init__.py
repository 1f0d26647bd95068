"""Records a TensorFlow program where Jumar cannot be installed: Python 3.7, with NumPy and TensorFlow alone.

The collector is one file, `jumar_collector.pyz`, with these modules, the observer's and the few that both use.
"""
