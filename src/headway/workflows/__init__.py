"""What a verb does with any task: load, train, evaluate, export, verify, bench."""
