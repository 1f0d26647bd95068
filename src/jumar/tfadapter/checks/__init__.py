"""What is wrong with the options that a TensorFlow script sets: rules JM601 and following, one file each."""
