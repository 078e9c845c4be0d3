"""A folder for each task, the protocol that they share (``task``), and the registry that finds them."""
