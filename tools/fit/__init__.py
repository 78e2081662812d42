"""Fits the constants of the kernel models, and values specific to software, hosts and tables, to published measurements."""

import os

# The matrices are small: threads of the linear-algebra library wait longer for each other than they compute. On a busy machine,
# a fit takes six times as long with them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
