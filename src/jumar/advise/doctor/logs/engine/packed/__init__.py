"""What logs come packed in: single streams, archives, and the texts in them."""
