"""One of the processes of `ranks`: `python -m …rankchild LINE RANK WORLD`, LINE an open file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from diffusers.hooks import context_parallel
from diffusers.models._modeling_parallel import ContextParallelConfig
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh

from ...kernels import dispatch
from ...kernels.parallel import Group, comm, gather, gather_lengths
from ..errors import BadInput, ComponentFailed, MotetError
from .boundary import denoisers
from .engine import Engine, Lockstep
from .load import load_pipeline
from .options import DiffusionOptions, ParallelOptions
from .ranks import Hello, Left, Order, Previewed, Refused, Stepped, rank_options
from .shot import Made, Pixels, Shot

if TYPE_CHECKING:
    from .ranks import Line

BACKEND = "motet"


def main(place: int, rank: int, world: str) -> None:
    """Load, say hello, and run batches until the line closes."""
    with Connection(place) as line:
        model, options, threads = line.recv()
        try:
            engine = prepared(model, rank_options(options, rank), threads, rank, world)
        except MotetError as error:
            line.send(Refused(error.code, str(error)))
            return
        line.send(Hello(portable(engine.defaults), engine.clips))
        while True:
            try:
                order = line.recv()
            except EOFError:
                return
            if isinstance(order, Order):
                serve(engine, order, line, rank)


def portable(defaults: dict[str, Any]) -> dict[str, Any]:
    """The defaults that are plain values."""
    return {key: value for key, value in defaults.items() if isinstance(value, int | float | str)}


def prepared(
    model: str | None, options: DiffusionOptions, threads: int, rank: int, world: str
) -> Engine:
    """The pipeline on this rank, its denoisers sharing tokens where that was asked for.

    Raises:
        MotetError: it can't be loaded, or can't share.
    """
    asked = options.parallel
    cuda = options.device.startswith("cuda")
    torch.set_num_threads(threads)
    if cuda:
        torch.cuda.set_device(options.device)
    dist.init_process_group(
        "nccl" if cuda else "gloo",
        init_method=f"file://{world}",
        rank=rank,
        world_size=asked.ranks,
        timeout=timedelta(seconds=asked.timeout_s),
    )
    world_group = Group(comm.group.WORLD, tuple(range(asked.ranks)), rank)
    pipe = load_pipeline(model, options)
    if asked.ring * asked.ulysses == 1:
        return Engine(pipe, options, threads, Lockstep(world_group, guided=world_group))
    shape = (asked.cfg, asked.ring, asked.ulysses)
    mesh: Any = init_device_mesh(
        "cuda" if cuda else "cpu", shape, mesh_dim_names=("cfg", "ring", "ulysses")
    )
    share_tokens(pipe, asked, mesh, cuda)
    share = dispatch.group_of(mesh["ring", "ulysses"]._flatten())
    guided = dispatch.group_of(mesh["cfg"]) if asked.cfg > 1 else None
    lockstep = Lockstep(world_group, share=share, guided=guided, backend=BACKEND)
    return Engine(pipe, options, threads, lockstep)


def share_tokens(pipe: Any, asked: ParallelOptions, mesh: Any, cuda: bool) -> None:
    """Turn on diffusers' context parallelism with our attention, which rings and masks.

    Raises:
        BadInput: the model has no plan for it.
    """
    if not cuda:
        # diffusers takes the rank modulo the accelerators, and gloo can't gather uneven parts.
        torch.accelerator.device_count = lambda: 1
        private: Any = context_parallel
        private._all_gather_anything = gather_uneven
    dispatch.register()
    config = ContextParallelConfig(
        ring_degree=asked.ring,
        ulysses_degree=asked.ulysses,
        ring_anything=asked.ulysses == 1,
        ulysses_anything=asked.ring == 1,
        mesh=mesh,
    )
    for denoiser in denoisers(pipe):
        model: Any = denoiser
        if getattr(model, "_cp_plan", None) is None:
            raise BadInput(
                f"{type(model).__name__} has no plan for sharing its tokens; cfg may work",
                where="parallel",
            )
        dispatch.use(model, BACKEND)
        model.enable_parallelism(config=config)


def gather_uneven(tensor: Tensor, dim: int, group: dist.ProcessGroup) -> Tensor:
    """All ranks' parts, which may differ in length, joined along `dim`."""
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    whole = Group(group, tuple(range(size)), rank)
    return gather(tensor, dim, whole, gather_lengths(tensor.shape[dim], whole, tensor.device))


def serve(engine: Engine, order: Order, line: Line, rank: int) -> None:
    """Run one batch; the first rank tells of it."""
    shots = [Shot(**one) for one in order.shots]
    if rank == 0:
        for row, shot in enumerate(shots):
            attach(shot, row, line, shots)
    found = engine(shots)
    if rank == 0:
        line.send([told(one) for one in found])


def attach(shot: Shot, row: int, line: Line, shots: Sequence[Shot]) -> None:
    """Send the shot's news along the line, and look there for those that nobody waits for."""

    def stepped(done: int, total: int) -> None:
        while line.poll():
            said = line.recv()
            if isinstance(said, Left):
                shots[said.row].gone.set()
        line.send(Stepped(row, done, total))

    def previewed(number: int, pixels: Pixels) -> None:
        line.send(Previewed(row, number, pixels))

    shot.on_step, shot.on_preview = stepped, previewed


def told(result: Made | BaseException) -> Made | Refused:
    """A result as it travels."""
    if isinstance(result, Made):
        return result
    error = result if isinstance(result, MotetError) else ComponentFailed(str(result))
    return Refused(error.code, str(error))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
