"""What a server allows: addresses, keys, sizes, numbers of requests, and seconds."""

import ipaddress
import re
from dataclasses import dataclass

from headway.errors import InputError, shown

HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:\[\]/@]*))(?::[0-9]{1,5})?")
"""A Host header: an address in brackets or a name, and maybe a port."""
PREFIX = re.compile(r"(?:/[A-Za-z0-9._~-]+)+")
LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Settings:
    """The limits of a server.  Raises InputError for what it refuses to do."""

    host: str = "127.0.0.1"
    """the address it listens on"""
    port: int = 8000
    keys: tuple[str, ...] = ()
    """who has one of these may use it; without any, everybody who reaches it may"""
    key_names: tuple[str, ...] = ()
    """what the log calls each key; empty, and for those beyond, its number"""
    insecure: bool = False
    """listen on another address than this machine's own without a key"""
    hosts: tuple[str, ...] = ()
    """names by which clients may call it, besides localhost and addresses in digits"""
    origins: tuple[str, ...] = ()
    """origins of other web pages that may use it"""
    prefix: str = ""
    """the path before all routes behind a proxy, such as /models"""
    running: int = 16
    """texts of a model that are computed together"""
    queue: int = 64
    """texts of a model that wait"""
    queued_tokens: int = 1 << 18
    """tokens of prompts of a model that wait"""
    body_bytes: int = 1 << 20
    header_bytes: int = 1 << 14
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    queue_seconds: float = 30.0
    total_seconds: float = 300.0
    ping_seconds: float = 15.0
    """after so long without a token, a streamed answer gets a comment, so that nobody takes the connection for dead"""
    write_seconds: float = 30.0
    """a client that reads nothing for so long is given up"""
    drain_seconds: float = 30.0
    """on SIGTERM, answers that are being computed may take so long"""
    stuck_seconds: float = 120.0
    """a worker that gives no sign for so long is not alive"""
    connections: int = 1024
    strict: bool = False
    """refuse fields that no route knows instead of ignoring them"""
    log: bool = False
    """write a line of JSON about each request to standard error"""

    def __post_init__(self) -> None:
        if not self.is_loopback and not self.keys and not self.insecure:
            raise InputError(
                f"--host {self.host} can be reached from other machines, and there is no key: set HEADWAY_API_KEY, "
                "name a file of keys with --keys, or say --insecure."
            )
        for key in self.keys:
            if len(key) < 8 or not key.isascii() or not key.isprintable() or " " in key:
                raise InputError("a key must have at least 8 printable ASCII characters and no space.")
        if self.prefix and not PREFIX.fullmatch(self.prefix):
            raise InputError(f"--prefix is {shown(self.prefix)}; expected a path such as /models, without a last /.")
        if "*" in self.origins:
            raise InputError("--origin *: name the origins one by one, such as https://example.org.")

    @property
    def is_loopback(self) -> bool:
        """Whether only programs of this machine reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def allows_host(self, header: str) -> bool:
        """Whether a Host header is one of a client that means this server.

        A page of another site that makes its name point here (DNS rebinding) sends that name.  With keys it gains
        nothing, so any name is allowed unless names are given.
        """
        if not (found := HOST.fullmatch(header)):
            return False
        name = found[1] or found[2]
        if name.lower() in (*LOOPBACK, *(one.lower() for one in self.hosts)):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return bool(self.keys) and not self.hosts
        return True
