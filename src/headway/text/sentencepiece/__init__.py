"""SentencePiece: its model files, and text segmentation by them."""
