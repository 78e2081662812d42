"""Fits the constants of the kernel models, and values specific to software, hosts and tables, to published measurements."""

import os

# Its matrices are small: threads of the linear-algebra library wait for each other longer than they compute, and on a busy machine
# a fit takes six times as long with them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
