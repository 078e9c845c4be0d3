"""A model that is ready to answer: which inputs are read together, and where."""
