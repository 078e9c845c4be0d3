"""Reports of runs, and the pages of the explorer: plain data in, pages out."""
