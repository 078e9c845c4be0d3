"""Images: folders and arrays of them, decoding, augmentation, preprocessing and batches."""
