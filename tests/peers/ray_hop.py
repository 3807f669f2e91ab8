"""What a Ray Serve handle call costs from replica to replica, to run beside `motet bench hop`.

Needs an environment of its own: pip install 'ray[serve]==2.60.0'. One deployment calls an echo in
another with 640 bytes, so many at once. Prints one JSON line for each number at once: times of a
call, and CPU of both replicas (the rest of the cluster isn't counted).

    python ray_hop.py --calls 600 --at-once 1 32
"""

import argparse
import asyncio
import json
import os
import resource
import statistics
import time

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray
from ray import serve

CHUNK = bytes(640)


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@serve.deployment(max_ongoing_requests=100, ray_actor_options={"num_cpus": 0.1})
class Echo:
    async def echo(self, chunk: bytes) -> bytes:
        return chunk

    async def cpu(self) -> float:
        return cpu_s()


@serve.deployment(max_ongoing_requests=100, ray_actor_options={"num_cpus": 0.1})
class Caller:
    def __init__(self, there) -> None:
        self.there = there

    async def measure(self, calls: int, at_once: int) -> dict:
        took: list[float] = []

        async def work(count: int) -> None:
            for _ in range(count):
                started = time.perf_counter()
                await self.there.echo.remote(CHUNK)
                took.append(time.perf_counter() - started)

        await work(20)
        took.clear()
        here, there = cpu_s(), await self.there.cpu.remote()
        started = time.perf_counter()
        await asyncio.gather(*(work(calls // at_once) for _ in range(at_once)))
        wall = time.perf_counter() - started
        here, there = cpu_s() - here, await self.there.cpu.remote() - there
        parts = statistics.quantiles(took, n=100)
        return {
            "at_once": at_once,
            "calls": len(took),
            "p50_us": round(parts[49] * 1e6),
            "p99_us": round(parts[98] * 1e6),
            "per_s": round(len(took) / wall),
            "cpu_us_caller": round(here / len(took) * 1e6),
            "cpu_us_echo": round(there / len(took) * 1e6),
        }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=600)
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 32])
    parsed = parser.parse_args()
    ray.init(include_dashboard=False, log_to_driver=False)
    handle = serve.run(Caller.bind(Echo.bind()), name="hop", route_prefix=None)
    try:
        for at_once in parsed.at_once:
            print(json.dumps(handle.measure.remote(parsed.calls, at_once).result()))
    finally:
        serve.shutdown()
        ray.shutdown()


if __name__ == "__main__":
    main()
