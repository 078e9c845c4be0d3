"""Tensors in, tensors out: the parts every Transformer is made of.  Imports torch alone."""
