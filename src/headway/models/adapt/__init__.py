"""Changes to an existing model: LoRA, freezing, dropout, a larger vocabulary, fewer blocks, ensembles."""
