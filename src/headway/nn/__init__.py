"""Tensors in, tensors out: the layers that every Transformer is made of.  Imports only torch."""
