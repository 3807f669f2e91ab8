"""The certificates of a hop between hosts: each side shows one, and trusts one authority."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from ...components.errors import BadInput


@dataclass(frozen=True, slots=True)
class MutualTls:
    """PEM files: the authority that both sides trust, and this side's certificate and key.

    They are read for every connection, so that renewed ones count from the next one on.

    `name` is the DNS name that a server's certificate must have, None for that of its address:
    replicas are called by addresses of their own, which no certificate knows ahead.
    """

    authority: Path
    certificate: Path
    key: Path
    name: str | None = None

    @staticmethod
    def of(folder: Path) -> MutualTls:
        """The files of a folder, named as Kubernetes' TLS secrets name them."""
        return MutualTls(folder / "ca.crt", folder / "tls.crt", folder / "tls.key")

    def server(self) -> ssl.SSLContext:
        """For a side that is called; it demands a certificate of its caller.

        Raises:
            BadInput: the files can't be read, or aren't what they should be.
        """
        context = self._context(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def client(self) -> ssl.SSLContext:
        """For a side that calls; it checks the name in the other's certificate.

        Raises:
            BadInput: the files can't be read, or aren't what they should be.
        """
        return self._context(ssl.PROTOCOL_TLS_CLIENT)

    def _context(self, side: int) -> ssl.SSLContext:
        context = ssl.SSLContext(side)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        try:
            context.load_verify_locations(self.authority)
        except OSError as error:
            raise BadInput(f"{self.authority} is no authority's certificate: {error}") from error
        try:
            # A password, so that a locked key is refused and not asked for on a terminal.
            context.load_cert_chain(self.certificate, self.key, password="")
        except OSError as error:
            raise BadInput(
                f"{self.certificate} and {self.key} are no certificate and its key: {error}"
            ) from error
        return context
