"""A folder for each format that a model is exported to: what writes and checks it, and the engines that read it."""
