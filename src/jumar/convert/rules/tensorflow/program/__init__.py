"""What the rules for TensorFlow share: names, imports, sessions, and edits of arguments and statements."""
