"""What the user asks of a precision search: options, files, lists of operators."""
