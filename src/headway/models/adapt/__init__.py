"""What changes a model that is there: LoRA, freezing, another vocabulary, fewer blocks, several models as one."""
