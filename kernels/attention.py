"""One attention call for every model: picks a backend by what the call needs, or says why none can.

    out = attention(q, k, v, mask=mask, precision=INT8)

Nothing is dropped in silence: a backend that can't honour an argument refuses the whole call, and
when all refuse, the error lists each one's reasons.
"""

from typing import Literal, overload

from torch import Tensor

from .backends import BACKENDS, Backend, Inputs
from .request import FULL, AttentionRequest, Precision, check_shapes, describe


class NoBackendError(ValueError):
    """No backend can answer the call; the text names each and its reasons."""


@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    return_lse: Literal[False] = False,
    *,
    precision: Precision = FULL,
    backend: str | None = None,
) -> Tensor: ...


@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    *,
    return_lse: Literal[True],
    precision: Precision = FULL,
    backend: str | None = None,
) -> tuple[Tensor, Tensor]: ...


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    return_lse: bool = False,
    *,
    precision: Precision = FULL,
    backend: str | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """softmax(q k^T scale + mask) v, in the dtype of q.

    q (batch, heads, q_len, dim); k, v (batch, kv_heads, k_len, dim), kv_heads dividing heads.
    `mask` broadcasts to (batch, heads, q_len, k_len): bool, True attends, or additive float.
    `causal` is top-left and joins with the mask. A query that may attend to nothing gives zeros.
    With `return_lse` the log-sum-exp comes too: float32 (batch, heads, q_len), natural log, -inf
    for such a query. `backend` names one of `backends.BACKENDS`; None takes the first that can.
    Raises ValueError for tensors that do not fit, NoBackendError when no backend can answer.
    """
    check_shapes(q, k, v, mask)
    request = describe(q, k, v, mask, causal, return_lse, precision)
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    chosen = choose(request, backend)
    out, lse = chosen.run(Inputs(q, k, v, mask, causal, factor, return_lse, precision))
    if not return_lse:
        return out
    if lse is None:
        raise RuntimeError(f"attention: backend {chosen.name} accepted return_lse and gave none")
    return out, lse


def choose(request: AttentionRequest, name: str | None = None) -> Backend:
    """The first backend that refuses nothing, or the named one; raises NoBackendError."""
    known = [backend.name for backend in BACKENDS]
    if name is not None and name not in known:
        raise NoBackendError(f"attention: backend {name!r} is unknown; known: {', '.join(known)}")
    reasons: dict[str, list[str]] = {}
    for candidate in BACKENDS:
        if name in (None, candidate.name):
            reasons[candidate.name] = candidate.refusals(request)
            if not reasons[candidate.name]:
                return candidate
    listed = "\n".join(f"  {key}: {'; '.join(why)}" for key, why in reasons.items())
    raise NoBackendError(f"attention: no backend can answer this call:\n{listed}")
