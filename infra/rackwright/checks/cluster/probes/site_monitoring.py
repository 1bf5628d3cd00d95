"""Probes of monitoring by the site's Prometheus: whom the exporters answer, and what that Prometheus reports of the stack."""

from __future__ import annotations

import base64
import binascii
import hashlib
import http.client
import json
import re
import ssl
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from rackwright.checks.cluster.harness.external_probes import ExternalProbe
from rackwright.checks.cluster.harness.probe import Probe
from rackwright.checks.cluster.harness.tls_client import client_context, request_through_node
from rackwright.checks.cluster.harness.tool_output import MissingAnswer, UnreadableValue
from rackwright.checks.cluster.harness.transport import local_slowness
from rackwright.errors import UndeterminedError
from rackwright.inventory import paths
from rackwright.inventory.reader import Inventory
from rackwright.yaml_loader import load_yaml

ANSWERS: Final = "answers"
"""Result of an exporter that sent metrics."""
NONE: Final = "none"
"""Result of a Prometheus that has nothing to report."""
_FOLDER: Final = "/etc/rackwright/node_exporter"
_SEPARATOR: Final = "---"
_PATIENCE: Final = 10.0
"""Seconds for one response of the site's Prometheus."""
_AT_ONCE: Final = 16
"""Number of nodes whose exporters are queried at the same time; chosen so that a controller of two cores is not loaded by TLS."""


@dataclass(frozen=True)
class ClientSettings:
    """Which clients an exporter accepts, as its files say; they are read at each connection (exporter-toolkit, web configuration)."""

    demands: str
    names: tuple[str, ...]
    authorities: tuple[str, ...]
    """SHA-256 of each certificate."""


def parse_client_settings(text: str) -> ClientSettings:
    """Return the settings from the web configuration and the certificates after the line `---`."""
    web, mark, pem = text.partition(f"\n{_SEPARATOR}\n")
    demands = re.search(r"^\s+client_auth_type: (\w+)\s*$", web, re.MULTILINE)
    names = re.search(r"^\s+client_allowed_sans: (\[.*\])\s*$", web, re.MULTILINE)
    authorities = fingerprints(pem)
    if not mark or not demands or not names or not authorities:
        raise ValueError("the web configuration or the authority is incomplete")
    listed: Any = json.loads(names[1])
    if not all(isinstance(name, str) for name in listed):
        raise ValueError(f'"{names[1]}" is not a list of names')
    return ClientSettings(demands[1], tuple(listed), authorities)


def fingerprints(pem: str) -> tuple[str, ...]:
    """Return the SHA-256 of each certificate of a PEM text. Raises ValueError for one that is no base64."""
    found = []
    for body in re.findall(r"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", pem, re.DOTALL):
        try:
            found.append(hashlib.sha256(base64.b64decode("".join(body.split()), validate=True)).hexdigest())
        except binascii.Error as error:
            raise ValueError(f"a certificate is not base64: {error}") from None
    return tuple(found)


CLIENT_SETTINGS = Probe(
    "monitoring-client-settings",
    on="monitoring_node",
    command=f"cat {_FOLDER}/web.yml && echo {_SEPARATOR} && cat {_FOLDER}/authority.crt",
    parse=parse_client_settings,
)


def _site(declared: Inventory) -> Mapping[str, Any]:
    """Return what the plan says of the site's Prometheus. Raises UndeterminedError if it has none; the checks' features exclude that."""
    site = (declared.monitoring or {}).get("external")
    if not site:
        raise UndeterminedError("the plan has no Prometheus of the site")
    return dict(site)


def probe_with_client(declared: Inventory, names: Sequence[str]) -> dict[str, str | UnreadableValue]:
    """Return ANSWERS for each exporter that serves metrics to the stack's client certificate, else what it said."""
    assert declared.monitoring is not None
    try:
        secrets = load_yaml(paths.secrets(declared.stack).read_text(encoding="utf-8"))["secrets"]["monitoring"]
        context = client_context(secrets["authority"], secrets["client"])
    except (OSError, LookupError, TypeError) as error:
        raise UndeterminedError(f"the stack's client certificate cannot be read: {error}") from None
    ports = {one["node"]: one["port"] for one in declared.monitoring["targets"] if one["job"] == "node"}
    key = "fqdn" if _site(declared)["scrape_by"] == "name" else "address"
    hosts = {host["name"]: host[key] for host in declared.cluster["hosts"]}

    def ask(node: str) -> str | UnreadableValue:
        try:
            return served(request_through_node(declared.stack, node, ports[node], hosts[node], context))
        except ssl.SSLEOFError:  # A daemon that is down, or a node that is; other checks report both.
            return MissingAnswer(f"{node}:{ports[node]}", "the connection was closed before an answer")
        except ssl.SSLCertVerificationError as error:
            return f"shows a certificate that is refused: {error.verify_message}"
        except ssl.SSLError as error:
            return (error.reason or str(error)).lower().replace("_", " ")
        except OSError as error:
            return MissingAnswer(f"{node}:{ports[node]}", error.strerror or str(error))

    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        return dict(zip(names, pool.map(ask, names), strict=True))


def served(response: bytes) -> str:
    """Return ANSWERS for a response with metrics of a node, else its first line.

    >>> served(b"HTTP/1.0 200 OK\\r\\n\\r\\nnode_load1 0.5\\n"), served(b"HTTP/1.0 400 Bad Request\\r\\n\\r\\n")
    ('answers', 'HTTP/1.0 400 Bad Request')
    """
    head, _, body = response.partition(b"\r\n\r\n")
    first = head.split(b"\r\n")[0].decode("ascii", "replace") or "nothing"
    if " 200 " not in f"{first} ":
        return first
    return ANSWERS if re.search(rb"^node_", body, re.MULTILINE) else f"{first}, without a metric of node_exporter"


class SiteApi:
    """The API of the site's Prometheus, queried from this machine as the stack file declares."""

    def __init__(self, site: Mapping[str, Any]) -> None:
        self._url = urlsplit(site["url"])
        try:
            token = Path(site["token_file"]).expanduser().read_text(encoding="utf-8").strip() if site["token_file"] else ""
            authority = Path(site["authority_file"]).expanduser() if site["authority_file"] else None
            self._tls = ssl.create_default_context(cafile=authority) if self._url.scheme == "https" else None
        except OSError as error:
            raise UndeterminedError(f"{error.filename or site['authority_file']}: {error.strerror}") from None
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def get(self, path: str) -> Any:
        """Return the data of an answer. Raises UndeterminedError without one, since nothing is known of the stack then."""
        host, patience = self._url.netloc, _PATIENCE * local_slowness()
        if self._tls:
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(host, timeout=patience, context=self._tls)
        else:
            connection = http.client.HTTPConnection(host, timeout=patience)
        try:
            connection.request("GET", self._url.path.rstrip("/") + path, headers=self._headers)
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
            if answer.status != 200:
                raise UndeterminedError(f"{host}{path}: status {answer.status}")
            return json.loads(text)["data"]
        except (OSError, ValueError, LookupError, TypeError, http.client.HTTPException) as error:
            raise UndeterminedError(f"{host}{path}: {getattr(error, 'strerror', None) or error}") from None
        finally:
            connection.close()


def probe_targets(declared: Inventory, names: Sequence[str]) -> dict[str, str]:
    """Return by node what the site's Prometheus has of its exporter: `up`, `down` or `absent`."""
    asked = quote(f'up{{stack="{declared.stack}",job="node"}}')
    return targets_of(SiteApi(_site(declared)).get(f"/api/v1/query?query={asked}"), names)


def targets_of(data: Any, names: Sequence[str]) -> dict[str, str]:
    """Return the state of the exporters from the result of a query for `up`.

    >>> targets_of({"result": [{"metric": {"instance": "worker0"}, "value": [1, "0"]}]}, ["worker0", "worker1"])
    {'worker0': 'down', 'worker1': 'absent'}
    """
    found = {one["metric"]["instance"]: one["value"][1] for one in data["result"]}
    return {name: {"1": "up", "0": "down"}.get(found.get(name, ""), "absent") for name in names}


def probe_rules(declared: Inventory, names: Sequence[str]) -> dict[str, str]:
    """Return which planned alerts the site's Prometheus lacks or cannot evaluate; NONE if it evaluates all."""
    assert declared.monitoring is not None
    planned = [rule["alert"] for group in declared.monitoring["rules"]["groups"] for rule in group["rules"] if "alert" in rule]
    said = rules_of(SiteApi(_site(declared)).get("/api/v1/rules?type=alert"), declared.stack, planned)
    return dict.fromkeys(names, said)


def rules_of(data: Any, stack: str, planned: Sequence[str]) -> str:
    """Return the alerts of a stack that are absent or broken, with the reason."""
    every = [rule for group in data["groups"] for rule in group["rules"] if rule.get("labels", {}).get("stack") == stack]
    health = {rule["name"]: rule["health"] for rule in every}
    faults = [f"{name}: {health.get(name, 'absent')}" for name in planned if health.get(name) != "ok"]
    return ", ".join(faults) or NONE


def probe_alerts(declared: Inventory, names: Sequence[str]) -> dict[str, str]:
    """Return by node the alerts that fire in the site's Prometheus, each with its severity; NONE without one."""
    return alerts_of(SiteApi(_site(declared)).get("/api/v1/alerts"), declared.stack, names)


def alerts_of(data: Any, stack: str, names: Sequence[str]) -> dict[str, str]:
    """Return the firing alerts of a stack by node; those of no node are listed with the first one.

    >>> alerts_of({"alerts": [{"labels": {"alertname": "A", "stack": "lab"}, "state": "firing"}]}, "lab", ["login0", "worker0"])
    {'login0': 'A', 'worker0': 'none'}
    """
    found: dict[str, list[str]] = {name: [] for name in names}
    for one in data["alerts"]:
        labels = one["labels"]
        if labels.get("stack") == stack and one["state"] == "firing":
            found.get(labels.get("instance", ""), found[names[0]]).append(labels["alertname"])
    return {name: ", ".join(sorted(set(alerts))) or NONE for name, alerts in found.items()}


WITH_CLIENT = ExternalProbe(
    "exporters-with-client", "monitoring_node", probe_with_client, needed_by=("site_monitoring.client_is_answered",)
)
AT_SITE = ExternalProbe("targets-at-site", "monitoring_node", probe_targets, needed_by=("site_monitoring.prometheus_reads_node",))
RULES_AT_SITE = ExternalProbe("rules-at-site", "@control", probe_rules, needed_by=("site_monitoring.rules_are_loaded",))
ALERTS_AT_SITE = ExternalProbe("alerts-at-site", "monitoring_node", probe_alerts, needed_by=("site_monitoring.no_alert_fires",))
