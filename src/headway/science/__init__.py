"""Several runs compared, and what follows from them."""
