"""Records: documents, rows of tables, conversations and labelled texts, checked and split."""
