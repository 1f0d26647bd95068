"""What lies in a folder: `Item`, the `Catalogue` that finds them, and what recognises each kind."""
