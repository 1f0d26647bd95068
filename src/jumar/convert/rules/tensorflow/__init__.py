"""Rules for scripts of TensorFlow, one a file. `program.order` says which run, and when."""
