"""The rules of `jumar doctor`, one a file: of the environment (with `find`), and those that findings in logs carry."""
