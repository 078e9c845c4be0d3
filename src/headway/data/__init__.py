"""Files become records, records become batches.

`read` opens what the user named, `detect` says what it is, `labels` checks it, `split` holds a part out, `cache` keeps
its tokens on disk, `windows` and `batches` cut it for training.  Everything here is a pure function of the files and a
seed; nothing prints.
"""
