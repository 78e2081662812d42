"""Lists the kinds of ops, one per line, and the models that predict their times."""

from __future__ import annotations

from collections.abc import Mapping

from gpuwise.kernels.ops.attention import ATTENTION
from gpuwise.kernels.ops.cast import CAST
from gpuwise.kernels.ops.conv import CONV
from gpuwise.kernels.ops.copy import COPY
from gpuwise.kernels.ops.elementwise import ELEMENTWISE
from gpuwise.kernels.ops.embedding import EMBEDDING
from gpuwise.kernels.ops.experts import EXPERTS
from gpuwise.kernels.ops.fft import FFT
from gpuwise.kernels.ops.index import INDEX
from gpuwise.kernels.ops.linear import LINEAR
from gpuwise.kernels.ops.loss import LOSS
from gpuwise.kernels.ops.matmul import MATMUL
from gpuwise.kernels.ops.norm import NORM
from gpuwise.kernels.ops.optimizer import OPTIMIZER
from gpuwise.kernels.ops.other import OTHER
from gpuwise.kernels.ops.pool import POOL
from gpuwise.kernels.ops.random import RANDOM
from gpuwise.kernels.ops.reduction import REDUCTION
from gpuwise.kernels.ops.rnn import RNN
from gpuwise.kernels.ops.softmax import SOFTMAX
from gpuwise.kernels.ops.sort import SORT
from gpuwise.kernels.types import KernelModel, OpKind

__all__ = ["KINDS", "MODELS"]

_ALL = (
    MATMUL,
    LINEAR,
    EXPERTS,
    CONV,
    ATTENTION,
    RNN,
    NORM,
    SOFTMAX,
    LOSS,
    ELEMENTWISE,
    REDUCTION,
    EMBEDDING,
    POOL,
    OPTIMIZER,
    CAST,
    COPY,
    INDEX,
    SORT,
    FFT,
    RANDOM,
    OTHER,
)

KINDS: Mapping[str, OpKind] = {kind.name: kind for kind in _ALL}
MODELS: Mapping[str, KernelModel] = {kind.model.name: kind.model for kind in _ALL}
