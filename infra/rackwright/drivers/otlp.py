"""Export of spans by OTLP/HTTP, in a process of its own: a collector that does not answer delays and fails nothing.

The settings are the standard variables of OpenTelemetry (specification, "OpenTelemetry Protocol Exporter"). Headers may hold a token: they
reach the process by its environment only and are never written.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rackwright import layout

_PREFIX: Final = "OTEL_EXPORTER_OTLP_"
_FORMATS: Final = {"http/protobuf": "application/x-protobuf", "http/json": "application/json"}
_TIMEOUT: Final = 10.0
"""Seconds for an export, the specification's default."""
_LONGEST_TIMEOUT: Final = 60.0
"""Seconds after which an export ends whatever the environment says. Chosen."""


@dataclass(frozen=True, slots=True)
class Exporter:
    """Where and how spans are sent."""

    url: str
    headers: Mapping[str, str]
    protocol: str = "http/protobuf"
    timeout: float = _TIMEOUT
    certificate: str = ""


def exporter(environment: Mapping[str, str]) -> Exporter | None:
    """Return the exporter that the environment declares, or None. Raises ValueError for a setting that is not supported."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or environment.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp":
        return None
    url = environment.get(f"{_PREFIX}TRACES_ENDPOINT", "")
    if not url and (base := environment.get(f"{_PREFIX}ENDPOINT", "")):
        url = f"{base.rstrip('/')}/v1/traces"
    if not url:
        return None
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise ValueError("the endpoint is no URL of http or https")
    protocol = _setting(environment, "PROTOCOL") or "http/protobuf"
    if protocol not in _FORMATS:
        raise ValueError(f"protocol {protocol} is not supported (expected {' or '.join(_FORMATS)})")
    milliseconds = _setting(environment, "TIMEOUT")
    timeout = min(int(milliseconds) / 1000, _LONGEST_TIMEOUT) if milliseconds.isdigit() else _TIMEOUT
    return Exporter(url, _headers(_setting(environment, "HEADERS")), protocol, timeout, _setting(environment, "CERTIFICATE"))


def _setting(environment: Mapping[str, str], name: str) -> str:
    return environment.get(f"{_PREFIX}TRACES_{name}") or environment.get(f"{_PREFIX}{name}", "")


def _headers(text: str) -> dict[str, str]:
    """Return headers of `key=value,key=value`, whose values are percent-encoded."""
    pairs = (part.partition("=") for part in text.split(",") if "=" in part)
    return {key.strip(): urllib.parse.unquote(value.strip()) for key, _, value in pairs}


def start_export(document: Mapping[str, Any]) -> None:
    """Start a process that sends the document, and do not wait for it. Raises OSError if it cannot be started."""
    child = subprocess.Popen(
        [sys.executable, "-m", "rackwright.drivers.otlp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(layout.IMPORT_ROOT)},
    )
    assert child.stdin is not None
    child.stdin.write(json.dumps(document).encode())
    child.stdin.close()
    child.returncode = 0  # It is not waited for: its result is the collector's to show.


def send(document: Mapping[str, Any], to: Exporter) -> str:
    """Send a document; return why it was not accepted, or an empty text. The reason holds no header."""
    body = json.dumps(document).encode() if to.protocol == "http/json" else as_protobuf(document)
    request = urllib.request.Request(to.url, body, {**to.headers, "Content-Type": _FORMATS[to.protocol]}, method="POST")
    try:
        context = ssl.create_default_context(cafile=to.certificate or None) if to.url.startswith("https:") else None
        with urllib.request.urlopen(request, timeout=to.timeout, context=context):
            return ""
    except urllib.error.HTTPError as refused:
        return f"status {refused.code}"
    except (OSError, ValueError) as error:
        return type(error).__name__


def as_protobuf(document: Mapping[str, Any]) -> bytes:
    """Return the binary form. The JSON form of OTLP has ids in hexadecimal notation, that of Protobuf in base64."""
    from google.protobuf.json_format import ParseDict
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    copy = json.loads(json.dumps(document))
    for span in (span for part in copy["resourceSpans"] for scope in part["scopeSpans"] for span in scope["spans"]):
        for key in ("traceId", "spanId", "parentSpanId"):
            if key in span:
                span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
    encoded: bytes = ParseDict(copy, ExportTraceServiceRequest()).SerializeToString()
    return encoded


if __name__ == "__main__":
    settings = exporter(os.environ)
    sys.exit(bool(settings and send(json.load(sys.stdin), settings)))
