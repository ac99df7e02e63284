"""Serves `/metrics` and `/healthz` over HTTP, or HTTPS with a bearer token.

Anything but loopback requires TLS and a token. The server limits connections and the time of each, and does the TLS
handshake in the thread of the connection: a client that sends nothing holds one slot for TIMEOUT seconds.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from attrs import field, frozen
from prometheus_client import CollectorRegistry, make_wsgi_app

TIMEOUT = 10.0
MAX_CONNECTIONS = 16
MIN_TOKEN = 16


class SettingsError(ValueError):
    """Settings that would not work, or not be safe. The message has the next step."""


@frozen
class HttpSettings:
    host: str
    port: int = field()
    certificate: str = ""
    key: str = ""
    token_file: str = ""

    @port.validator
    def _check_port(self, _: Any, value: int) -> None:
        if not 0 <= value <= 65535:
            raise SettingsError(f"port {value} is not between 0 and 65535")

    @property
    def is_loopback(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def check(self) -> None:
        """Raises SettingsError."""
        if bool(self.certificate) != bool(self.key):
            raise SettingsError("TLS needs both a certificate and its key: give --tls-cert and --tls-key")
        if self.token_file:
            self.token()
        if not self.is_loopback and not (self.certificate and self.token_file):
            raise SettingsError(
                f"{self.host} is not a loopback address, and metrics name the pods of this node: "
                "give --tls-cert, --tls-key and --token-file, or listen on 127.0.0.1"
            )

    def token(self) -> bytes:
        """Read each time, so that it can be rotated."""
        try:
            token = Path(self.token_file).read_bytes().strip()
        except OSError as error:
            raise SettingsError(f"the token file cannot be read: {error}") from None
        if len(token) < MIN_TOKEN:
            raise SettingsError(f"the token in {self.token_file} is shorter than {MIN_TOKEN} bytes: use a random one")
        return token


def parse_address(text: str) -> tuple[str, int]:
    """HOST:PORT, [IPV6]:PORT. Raises SettingsError."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit()):
        raise SettingsError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:9754")
    return host.removeprefix("[").removesuffix("]"), int(port)


class HttpServer:
    def __init__(self, settings: HttpSettings, registry: CollectorRegistry) -> None:
        """Raises SettingsError and OSError."""
        settings.check()
        self._server = _Server(settings, _application(settings, registry))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_port)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _application(settings: HttpSettings, registry: CollectorRegistry) -> Callable[..., Iterable[bytes]]:
    metrics = make_wsgi_app(registry)

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        def refuse(status: str, *headers: tuple[str, str]) -> list[bytes]:
            start_response(status, [("Content-Type", "text/plain"), *headers])
            return [status.encode() + b"\n"]

        path = environ.get("PATH_INFO")
        if path == "/healthz":
            return refuse("200 OK")
        if settings.token_file:
            given = environ.get("HTTP_AUTHORIZATION", "").encode("latin-1", "replace")
            try:
                expected = b"Bearer " + settings.token()
            except SettingsError:
                return refuse("503 Service Unavailable")
            if not hmac.compare_digest(given, expected):
                return refuse("401 Unauthorized", ("WWW-Authenticate", "Bearer"))
        if path != "/metrics":
            return refuse("404 Not Found")
        if environ.get("REQUEST_METHOD") not in ("GET", "HEAD"):
            return refuse("405 Method Not Allowed", ("Allow", "GET, HEAD"))
        answer: Iterable[bytes] = metrics(environ, start_response)
        return answer

    return application


class _Handler(WSGIRequestHandler):
    timeout = TIMEOUT

    def log_message(self, format: str, *_: Any) -> None:
        """Nothing: a scrape every few seconds is not news."""


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = MAX_CONNECTIONS

    def __init__(self, settings: HttpSettings, application: Callable[..., Iterable[bytes]]) -> None:
        self.address_family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        self._slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._tls: ssl.SSLContext | None = None
        if settings.certificate:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            try:
                self._tls.load_cert_chain(settings.certificate, settings.key)
            except (OSError, ssl.SSLError) as error:
                raise SettingsError(f"the certificate or its key cannot be used: {error}") from None
        super().__init__((settings.host, settings.port), _Handler)
        self.set_app(application)

    def server_bind(self) -> None:
        """Without the name of the host, for which it would ask a name server."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._slots.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            request.settimeout(TIMEOUT)
            if self._tls is not None:
                request = self._tls.wrap_socket(request, server_side=True)
            super().process_request_thread(request, client_address)
        except OSError:
            self.shutdown_request(request)  # a failed handshake
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that closed its connection."""
