"""Our attention as backends of diffusers' dispatcher, without a change to its source.

    register()                          # once; then "motet", "motet_int8", "motet_fp8" exist
    use(model.transformer_blocks, "motet_int8")

`use` sets the backend on the modules it is given and nothing else; diffusers' own
`set_attention_backend` also works, but sets a process-wide default that outlives the model. A layer
that 8 bits can't serve (a head size, a backward pass) runs in full precision and the log says so,
once for each reason. Under diffusers' context parallelism the call becomes our ring or Ulysses,
where the mask travels with its keys.
"""

import logging
from collections.abc import Callable
from typing import Any

import diffusers.models.attention_dispatch as diffusers_dispatch
from torch import Tensor, nn

from .attention import NoBackendError, attention, choose
from .parallel import Group, Mesh
from .processor import calls_sdpa, redirected
from .request import FP8, FULL, INT8, AttentionRequest, Precision, describe
from .ulysses import unified_attention

logger = logging.getLogger(__name__)
# diffusers keeps the registry private and types it loosely.
host: Any = diffusers_dispatch

PRECISIONS: dict[str, Precision] = {"motet": FULL, "motet_int8": INT8, "motet_fp8": FP8}
_told: set[str] = set()


def register() -> None:
    """Add the backends to diffusers' enumeration and registry; calling again changes nothing."""
    for name, precision in PRECISIONS.items():
        add(name, backend_of(precision))


def named(precision: Precision) -> str:
    """The backend's name for any precision, registered on first use: "motet_int8_full"."""
    for name, known in PRECISIONS.items():
        if known == precision:
            register()
            return name
    rough = "" if precision.smooth_k else "_unsmoothed"
    name = f"motet_{precision.qk}_{precision.pv}{rough}"
    add(name, backend_of(precision))
    return name


def add(name: str, function: Callable[..., Tensor]) -> None:
    """Register any function of the dispatcher's signature under a new name."""
    member = _member(name)
    host._AttentionBackendRegistry.register(member, supports_context_parallel=True)(function)


def use(module: nn.Module, name: str | None) -> int:
    """Give every attention processor in `module` this backend, None for diffusers' default.

    Returns how many took it: processors that ask the dispatcher, and those that call torch's
    `scaled_dot_product_attention` themselves, which are replaced by a copy that asks here.
    """
    backend = None if name is None else _known(name)
    return sum(_give(part, backend) for part in module.modules())


def _give(part: nn.Module, backend: Any) -> bool:
    processor: Any = getattr(part, "processor", None)
    if hasattr(processor, "_attention_backend"):
        processor._attention_backend = backend
        return True
    if processor is None or isinstance(processor, str) or not calls_sdpa(processor):
        return False
    functions = host._AttentionBackendRegistry._backends
    owner: Any = part
    owner.set_processor(redirected(processor, None if backend is None else functions[backend]))
    return True


def backend_of(precision: Precision) -> Callable[..., Tensor]:
    """A dispatcher function, tensors (batch, length, heads, dim), of one precision."""

    def run(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
        _parallel_config: Any = None,
    ) -> Tensor:
        if dropout_p:
            raise ValueError(f"motet attention: dropout_p must be 0, got {dropout_p}")
        q, k, v = (t.transpose(1, 2) for t in (query, key, value))
        if q.shape[1] != k.shape[1] and not enable_gqa:
            raise ValueError(
                f"motet attention: {q.shape[1]} and {k.shape[1]} heads need enable_gqa"
            )
        wanted = _served(describe(q, k, v, attn_mask, is_causal, False, precision))
        if _parallel_config is None:
            mask = _full_mask(attn_mask, q, k)
            out = attention(q, k, v, mask, is_causal, scale, precision=wanted)
        else:
            config = _parallel_config.context_parallel_config
            out = unified_attention(
                q, k, v, mesh_of(config), key_mask=_key_mask(attn_mask, k), causal=is_causal,
                scale=scale, precision=wanted, lengths=_lengths(config, q),
            )  # fmt: skip
        return out.transpose(1, 2)

    run.__name__ = "motet_attention"
    return run


def mesh_of(config: Any) -> Mesh:
    """The ring and Ulysses groups of diffusers' context-parallel configuration, on this rank."""
    return Mesh(
        cfg=_alone(), ring=group_of(config._ring_mesh), ulysses=group_of(config._ulysses_mesh)
    )


def group_of(mesh: Any) -> Group:
    """A device mesh of one dimension as a group of this rank."""
    handle = mesh.get_group()
    ranks = tuple(int(rank) for rank in mesh.mesh.flatten())
    return Group(handle, ranks, mesh.get_local_rank())


def _alone() -> Group:
    """A group of one never communicates, so the whole world's handle stands in."""
    import torch.distributed as dist

    world = dist.group.WORLD
    if world is None:
        raise RuntimeError("motet attention: torch.distributed is not initialised")
    return Group(world, (dist.get_rank(),), 0)


def _lengths(config: Any, q: Tensor) -> list[int] | None:
    """Equal shards need no exchange; with the `_anything` options lengths must be asked for."""
    if config.ring_anything or config.ulysses_anything:
        return None
    return [q.shape[2]] * (config.ring_degree * config.ulysses_degree)


def _served(request: AttentionRequest) -> Precision:
    """The precision asked for, or full where no backend serves it for this layer."""
    if not request.precision.quantised:
        return request.precision
    try:
        choose(request)
    except NoBackendError as error:
        if (reason := str(error)) not in _told:
            _told.add(reason)
            logger.warning("8-bit attention falls back to full precision. %s", reason)
        return FULL
    return request.precision


def _full_mask(mask: Tensor | None, q: Tensor, k: Tensor) -> Tensor | None:
    """diffusers also passes a 2-D key mask, (batch, k_len)."""
    if mask is not None and mask.dim() == 2 and mask.shape == (q.shape[0], k.shape[2]):
        return mask[:, None, None, :]
    return mask


def _key_mask(mask: Tensor | None, k: Tensor) -> Tensor | None:
    """The part of the mask that belongs to this rank's keys; only key masks can be cut."""
    if mask is None:
        return None
    batch, length = k.shape[0], k.shape[2]
    wide = mask if mask.dim() != 2 else mask[:, None, None, :]
    fits = wide.dim() == 4 and wide.shape[1:3] == (1, 1) and wide.shape[3] == length
    if not fits or mask.dtype.is_floating_point:
        raise ValueError(
            "motet attention: under context parallelism the mask must be a bool key mask, "
            f"(batch, {length}) or (batch, 1, 1, {length}); got {mask.dtype} {tuple(mask.shape)}"
        )
    return wide[:, 0, 0].bool().expand(batch, length)


def _known(name: str) -> Any:
    member = host.AttentionBackendName._value2member_map_.get(name)
    if member is None or member not in host._AttentionBackendRegistry._backends:
        known = sorted(one.value for one in host._AttentionBackendRegistry._backends)
        raise ValueError(f"attention backend {name!r} is unknown; known: {', '.join(known)}")
    return member


def _member(name: str) -> Any:
    """A member of diffusers' closed enumeration, made once."""
    names = host.AttentionBackendName
    if name in names._value2member_map_:
        return names._value2member_map_[name]
    member = str.__new__(names, name)
    member._name_, member._value_ = name.upper(), name
    names._member_map_[name.upper()] = member
    names._member_names_.append(name.upper())
    names._value2member_map_[name] = member
    return member
