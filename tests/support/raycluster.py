"""A Ray cluster of a head and two nodes, in a process of its own: it forks, which gRPC can't bear.

Prints the address and the processes of the nodes as a line of JSON; ends when its input does.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any


def main() -> None:
    os.environ["RAY_raylet_start_wait_time_s"] = "120"  # noqa: SIM112 - so Ray spells it
    cluster_utils: Any = importlib.import_module("ray.cluster_utils")
    shared = {"object_store_memory": 128 * 2**20}
    head = {"num_cpus": 0, "include_dashboard": False, **shared}
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args=head)
    try:
        # One core each: Ray starts as many processes ahead.
        places = {"motet-a": 4, "motet-llm": 4, "motet-a-canary": 4}
        nodes = [cluster.add_node(num_cpus=1, resources=places, **shared) for _ in range(2)]
        raylets = [node.all_processes["raylet"][0].process.pid for node in nodes]
        sys.__stdout__.write(json.dumps({"address": cluster.address, "raylets": raylets}) + "\n")
        sys.__stdout__.flush()
        sys.stdin.read()
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
