"""What a call from one BentoML service to another costs, to run beside `motet bench hop`.

Needs an environment of its own: pip install bentoml==1.4.40. Two services in processes of their
own, joined by `depends()`; the first calls an echo in the second with 640 bytes, so many at once.
Prints one JSON line for each number at once: times of a call, and CPU of both processes.

    python bentoml_hop.py --calls 600 --at-once 1 32
"""

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

import bentoml

CHUNK = "x" * 640


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@bentoml.service(workers=1)
class Echo:
    @bentoml.api
    async def echo(self, chunk: str) -> str:
        return chunk

    @bentoml.api
    async def cpu(self) -> float:
        return cpu_s()


@bentoml.service(workers=1, traffic={"timeout": 300})
class Caller:
    there = bentoml.depends(Echo)

    @bentoml.api
    async def measure(self, calls: int, at_once: int) -> dict:
        took: list[float] = []
        failed: Counter[str] = Counter()

        async def work(count: int) -> None:
            for _ in range(count):
                started = time.perf_counter()
                try:
                    await self.there.to_async.echo(chunk=CHUNK)
                except Exception as error:  # whatever fails is counted and told by its kind
                    failed[type(error).__name__] += 1
                else:
                    took.append(time.perf_counter() - started)

        await work(20)
        took.clear()
        here, there = cpu_s(), await self.there.to_async.cpu()
        started = time.perf_counter()
        await asyncio.gather(*(work(calls // at_once) for _ in range(at_once)))
        wall = time.perf_counter() - started
        here, there = cpu_s() - here, await self.there.to_async.cpu() - there
        parts = statistics.quantiles(took, n=100)
        return {
            "at_once": at_once,
            "calls": len(took),
            "failed": dict(failed),
            "p50_us": round(parts[49] * 1e6),
            "p99_us": round(parts[98] * 1e6),
            "per_s": round(len(took) / wall),
            "cpu_us_caller": round(here / len(took) * 1e6),
            "cpu_us_echo": round(there / len(took) * 1e6),
        }


def post(path: str, body: dict) -> dict:
    request = urllib.request.Request(
        f"http://127.0.0.1:{PORT}/{path}",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)


PORT = 38731


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=600)
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 32])
    parsed = parser.parse_args()
    command = [sys.executable, "-m", "bentoml", "serve", "bentoml_hop:Caller", "--port", str(PORT)]
    environment = {**os.environ, "BENTOML_DO_NOT_TRACK": "True"}
    server = subprocess.Popen(
        [*command, "--host", "127.0.0.1"],
        cwd=Path(__file__).parent,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{PORT}/readyz", timeout=2).close()
                break
            except (urllib.error.URLError, OSError):
                time.sleep(0.3)
                assert server.poll() is None, "bentoml serve has ended"
        for at_once in parsed.at_once:
            print(json.dumps(post("measure", {"calls": parsed.calls, "at_once": at_once})))
    finally:
        server.terminate()
        server.wait(20)


if __name__ == "__main__":
    main()
