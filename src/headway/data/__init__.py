"""Files become records, and records become batches.

``open`` opens what the user named and says what it is, by way of ``formats`` and ``images``; ``records`` checks it and
holds a part out; ``batches`` keeps its tokens on disk and cuts them for training; ``stream`` reads shards during
training; ``samples`` holds texts that come with Python.  Everything here is a pure function of the files and a seed;
nothing prints.
"""
