"""Fast ways to compute what the layers say, one operation a file, each beside its plain oracle.

``dispatch`` is the one place that chooses: by processor, precision and shape, with the reason.  The layers of ``nn``
call ``dispatch`` alone.  A new operation, or another way to compute one, is a file here with its oracle, a choice in
``dispatch``, and a test in tests/nn/kernels that values and gradients are equal.
"""
