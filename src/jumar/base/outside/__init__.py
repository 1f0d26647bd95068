"""What others wrote and Jumar unpacks."""
