"""Files become records, and records become batches: a pure function of the files and a seed."""
