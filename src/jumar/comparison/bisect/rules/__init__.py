"""The rule of `jumar accuracy bisect`."""
