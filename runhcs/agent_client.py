"""Queries of the node agent, for the commands that show what it has collected."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from runhcs import shims
from shim.api.agent import EventsRequest, EventsResponse, QueryRequest, QueryResponse
from shim.platform import endpoint
from shim.telemetry import SERVICE
from shim.ttrpc.client import Client
from shim.ttrpc.status import ClosedError, StatusError

TIMEOUT = 10.0


class AgentError(Exception):
    """No agent, or no answer; the message has the next step."""


def agent_address(args: argparse.Namespace) -> str:
    """Where the agent listens for shims and for other commands."""
    directories = shims.socket_directories(args)
    scheme = str(getattr(endpoint, "SCHEME", ""))
    return endpoint.agent_address(f"{scheme}{directories[0]}/shim" if directories else "")


def _connect(args: argparse.Namespace) -> Client:
    address = agent_address(args)
    try:
        stream = endpoint.connect(endpoint.path_of(address), TIMEOUT)
    except (OSError, endpoint.EndpointError) as error:
        raise AgentError(f"no agent listens on {address} ({error}): start it with `runhcs agent`") from None
    stream.settimeout(None)
    return Client(stream)


def query(args: argparse.Namespace, kind: str, id: str = "") -> dict[str, Any]:
    """Raises AgentError."""
    with _connect(args) as client:
        try:
            answer = client.call(SERVICE, "Query", QueryRequest(kind=kind, id=id).encode(), timeout=TIMEOUT)
        except StatusError as error:
            raise AgentError(error.message) from None
        except ClosedError:
            raise AgentError("the agent closed the connection: it may be stopping, retry") from None
    found: dict[str, Any] = json.loads(QueryResponse.decode(answer).json)
    return found


def events(args: argparse.Namespace, follow: bool) -> Iterator[dict[str, Any]]:
    """The recent events, and with `follow` all that come until the agent stops. Raises AgentError."""
    with _connect(args) as client:
        stream = client.stream(SERVICE, "Events", EventsRequest(follow=follow).encode(), sends=False)
        try:
            while (message := stream.recv(None if follow else TIMEOUT)) is not None:
                yield json.loads(EventsResponse.decode(message).json)
        except (StatusError, TimeoutError) as error:
            raise AgentError(f"the agent does not answer: {error}") from None
        except ClosedError:
            raise AgentError("the agent has stopped") from None
