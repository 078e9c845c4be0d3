"""PEFT adapters: low-rank updates (LoRA) in a directory of their own, read and written."""
