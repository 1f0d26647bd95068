"""What others made: archives that Jumar unpacks, Ray, and the frameworks that programs import."""
