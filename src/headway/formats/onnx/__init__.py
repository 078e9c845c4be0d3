"""Graphs of ONNX, and the engines that run them."""
