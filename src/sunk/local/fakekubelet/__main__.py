"""`python -m sunk.local.fakekubelet '{"settings": {"nodes": 5}, "kubeconfig": "…"}'`: what `spawned` starts."""

import asyncio
import logging
import sys

from msgspec import json

from sunk.local.fakekubelet.serve import READY, ChildArguments, run
from sunk.model.refusal import Refusal


def _say_ready() -> None:
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="fake kubelet: %(message)s")
    order = json.decode(sys.argv[1], type=ChildArguments)
    try:
        asyncio.run(run(order.settings, kubeconfig=order.kubeconfig, ready=_say_ready))
    except Refusal as refusal:
        logging.error("%s", refusal)  # noqa: LOG015, TRY400 - a sentence for a person
        sys.exit(2)
