"""Measure every kernel against its twin: `python -m motet.kernels.bench`.

Each row: the kernel, its shape, the median time, TFLOP/s or GB/s by `costs`, and the error against
full precision. On a GPU the attention rows stand beside torch's SDPA, cuDNN and FlashAttention
where installed. On a CPU the 8-bit rows are the emulation: their error is the kernel's, their time
says nothing of a GPU. `--sass` compiles for sm_90 and prints what the machine code holds instead;
`--ranks N` measures ring and Ulysses over N processes.
"""

import argparse
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from . import benchcases
from .benchcases import Case


@dataclass(frozen=True, slots=True)
class Row:
    """One measured case; `note` is why there is no number when there is none."""

    name: str
    shape: str
    median_ms: float | None
    rate: str
    cosine: float | None
    relative_l1: float | None
    note: str = ""


def measure(case: Case, repeats: int) -> Row:
    """Time `case.run` after one warm-up; a case that can't run becomes a row that says why."""
    try:
        out = case.run()
    except (ValueError, RuntimeError) as error:
        return Row(case.name, case.shape, None, "", None, None, str(error).splitlines()[-1].strip())
    times_ms = [_time_ms(case.run, out.device) for _ in range(repeats)]
    median = statistics.median(times_ms)
    cosine, relative = errors(out, case.expected)
    return Row(case.name, case.shape, median, _rate(case, median), cosine, relative)


def errors(out: Tensor, expected: Tensor) -> tuple[float, float]:
    """Cosine and relative L1 over all values."""
    a, b = out.double().flatten(), expected.double().flatten()
    cosine = torch.nn.functional.cosine_similarity(a, b, 0)
    return float(cosine), float((a - b).abs().sum() / b.abs().sum())


def table(rows: list[Row]) -> Iterator[str]:
    yield f"{'kernel':36} {'shape':26} {'median ms':>10} {'rate':>14} {'cos %':>9} {'rel-L1':>8}"
    for row in rows:
        if row.median_ms is None:
            yield f"{row.name:36} {row.shape:26} not run: {row.note}"
            continue
        cosine = "" if row.cosine is None else f"{row.cosine * 100:.4f}"
        relative = "" if row.relative_l1 is None else f"{row.relative_l1:.4f}"
        yield (
            f"{row.name:36} {row.shape:26} {row.median_ms:10.2f} {row.rate:>14} "
            f"{cosine:>9} {relative:>8}"
        )


def machine(device: torch.device) -> str:
    """One line that says where the numbers come from."""
    place = platform.processor() or platform.machine()
    if device.type == "cuda":
        place = torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"torch {torch.__version__}, {device.type}: {place}, {threads} threads"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m motet.kernels.bench", description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--length", type=int, help="tokens (default 16384 on CUDA, 1024 on CPU)")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", help="rows whose name contains this")
    parser.add_argument("--sass", action="store_true", help="compile for sm_90, print machine code")
    parser.add_argument("--ranks", type=int, help="measure sharded attention over processes")
    options = parser.parse_args(arguments)
    if options.sass:
        return _print_sass()
    if options.ranks:
        return _print_ranks(options.ranks, options.length, options.repeats)
    device = torch.device(options.device)
    length: int = options.length or (16384 if device.type == "cuda" else 1024)
    write(machine(device))
    with torch.inference_mode():
        cases = benchcases.cases(device, length)
        chosen = [case for case in cases if options.only is None or options.only in case.name]
        for line in table([measure(case, options.repeats) for case in chosen]):
            write(line)
    return 0


def write(line: str) -> None:
    sys.stdout.write(line + "\n")


def _print_sass() -> int:
    from .sage_aot import VARIANTS, compile_attention

    for variant in VARIANTS:
        code = compile_attention(variant)
        tensor = {op: n for op, n in sorted(code.opcodes.items()) if op.endswith("GMMA")}
        write(
            f"sm_90 {variant.name:24} {tensor} registers {code.registers} "
            f"spilled {code.spill_bytes} B, shared {code.shared_bytes} B"
        )
    return 0


def _print_ranks(ranks: int, length: int | None, repeats: int) -> int:
    from .benchranks import measure_ranks

    on_gpu = torch.cuda.device_count() >= ranks
    for line in measure_ranks(ranks, length or (32768 if on_gpu else 1024), repeats):
        write(line)
    return 0


def _time_ms(run: Callable[[], Tensor], device: torch.device) -> float:
    if device.type != "cuda":
        start = time.perf_counter()
        run()
        return (time.perf_counter() - start) * 1000
    begin = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    begin.record()
    run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def _rate(case: Case, median_ms: float) -> str:
    if case.bound_by == "compute":
        return f"{case.cost.flops / median_ms / 1e9:.3f} TFLOP/s"
    return f"{case.cost.bytes_moved / median_ms / 1e6:.2f} GB/s"


if __name__ == "__main__":
    sys.exit(main())
