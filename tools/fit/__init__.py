"""Fits the constants of the kernel models, and values specific to software, hosts and tables, to published measurements."""

import os

# The matrices are small, so the threads of the linear-algebra library wait for each other longer than they compute. With threads,
# a fit on a busy machine takes six times as long.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
