"""Kubernetes' pod deletion cost, kept at the number of runs: the emptiest replica goes first."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Callable
from pathlib import Path

import httpx

from ...components.errors import MissingRequirement

logger = logging.getLogger("motet")
ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
PERIOD_S = 15.0
"""Between two updates: each is a write to the cluster's store, and scaling down takes minutes."""


class PodCost:
    """Annotates this very pod by its own service account, which must be allowed to patch it.

    An API server that can't be reached or refuses costs nothing but the choice of the victim: it is
    logged, once until it answers again.
    """

    def __init__(
        self,
        pod: str,
        *,
        address: str | None = None,
        account: Path = ACCOUNT,
        period_s: float = PERIOD_S,
    ) -> None:
        self._pod = pod
        self._account = account
        self._period_s = period_s
        self._address = address or _address()
        self._told: int | None = None
        self._failing = False
        for name in ("token", "ca.crt", "namespace"):
            if not (account / name).is_file():
                raise MissingRequirement(
                    f"needs the pod's service account, and {account / name} is not there;"
                    " set automountServiceAccountToken: true",
                    where="--pod",
                )

    async def run(self, runs: Callable[[], int]) -> None:
        """Tell how many there are whenever that has changed, until cancelled."""
        context = ssl.create_default_context(cafile=str(self._account / "ca.crt"))
        async with httpx.AsyncClient(verify=context, timeout=10.0, trust_env=False) as client:
            while True:
                count = runs()
                if count != self._told and await self._tell(client, count):
                    self._told = count
                await asyncio.sleep(self._period_s)

    async def _tell(self, client: httpx.AsyncClient, count: int) -> bool:
        """Patch the annotation. The token is read each time: Kubernetes renews it."""
        try:
            token, namespace = await asyncio.to_thread(self._credentials)
            answer = await client.patch(
                f"{self._address}/api/v1/namespaces/{namespace}/pods/{self._pod}",
                json={"metadata": {"annotations": {ANNOTATION: str(count)}}},
                headers={
                    "Authorization": f"Bearer {token}",
                    "Content-Type": "application/merge-patch+json",
                },
            )
            answer.raise_for_status()
        except (httpx.HTTPError, OSError) as error:
            if not self._failing:
                logger.warning("%s: its deletion cost can't be told: %s", self._pod, error)
            self._failing = True
            return False
        self._failing = False
        return True

    def _credentials(self) -> tuple[str, str]:
        token = (self._account / "token").read_text().strip()
        return token, (self._account / "namespace").read_text().strip()


def _address() -> str:
    """The API server, as Kubernetes tells every pod."""
    host = os.environ.get("KUBERNETES_SERVICE_HOST")
    if not host:
        raise MissingRequirement(
            "works in a pod of Kubernetes only: KUBERNETES_SERVICE_HOST isn't set", where="--pod"
        )
    port = os.environ.get("KUBERNETES_SERVICE_PORT_HTTPS", "443")
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
