"""Fast implementations of single operations, one per file, each with its plain oracle.

``dispatch`` is the only place that chooses among them: by device, precision and shape, with the reason.  The layers of
``nn`` call only ``dispatch``.  A new operation, or another implementation of one, is a file here with its oracle, a
choice in ``dispatch``, and a test in tests/nn/kernels that values and gradients are equal.
"""
