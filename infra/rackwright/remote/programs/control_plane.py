"""Run on the node, a controller: query its etcd, its static pods, its audit log, and how secrets are stored in etcd.

Input: {"topic": a key of TOPICS}.
Output: what checks need of that topic, as JSON. Nothing is written, except that the API server records the requests in its audit log,
and no secret's contents are printed.
secret's contents are printed.
Python 3.9, standard library only.
"""

from __future__ import annotations

import base64
import glob
import hashlib
import http.client
import json
import os
import re
import socket
import ssl
import sys
import time
from typing import Any

PKI = "/etc/kubernetes/pki"
STAMP = "/etc/kubernetes/rackwright/applied.json"
ENCRYPTION = "/etc/kubernetes/rackwright/encryption.yaml"
AUDIT = "/var/log/kubernetes/audit.log"
MANIFESTS = "/etc/kubernetes/manifests"
PATIENCE = 4 * int(os.environ.get("RACKWRIGHT_SLOWNESS") or 1)
"""Seconds for one response; the round measures the node's slowness (docs/adr/0026)."""
TAIL = 1 << 20
"""Bytes that are read from the end of the audit log."""
SECRETS = b"/registry/secrets/"
AT_ONCE = 500
"""Keys of a range request to etcd. Chosen: the page size of the API server's own lists (client-go, pager.DefaultPageSize)."""


def etcd_context() -> ssl.SSLContext:
    """Return the TLS context that the API server uses towards etcd."""
    made = ssl.create_default_context(cafile=PKI + "/etcd/ca.crt")
    made.load_cert_chain(PKI + "/apiserver-etcd-client.crt", PKI + "/apiserver-etcd-client.key")
    return made


class WrongAnswer(OSError):
    """An error response of etcd: path, status and message."""


def post(connection: http.client.HTTPSConnection, path: str, **body: Any) -> Any:
    """Send a request to etcd's JSON gateway and return its response (etcd.io/docs/v3.6/dev-guide/api_grpc_gateway)."""
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read().decode()
    if answer.status != 200:
        raise WrongAnswer(f"status {answer.status} of {path}: {text[:200]}")
    return json.loads(text)


def query_without_certificate() -> str:
    """Return `refused` if etcd ends the handshake of a client without a certificate, or the reason why that is unknown."""
    connection = http.client.HTTPSConnection("127.0.0.1", 2379, context=ssl._create_unverified_context(), timeout=PATIENCE)
    try:
        connection.request("GET", "/version")
        return f"status {connection.getresponse().status}"
    except socket.timeout:
        return f"no answer within {PATIENCE} s"
    except (ssl.SSLError, ConnectionResetError, BrokenPipeError, http.client.HTTPException):
        return "refused"
    except OSError as error:  # No server was there to refuse, or this client could not connect.
        return f"no answer: {error}"
    finally:
        connection.close()


def label(member: dict[str, Any], members: list[dict[str, Any]]) -> str:
    """Return the name of a member; with its peer address where it has none yet, because it never started, or where another has it too."""
    name = member.get("name") or "not started"
    alike = [one for one in members if one.get("name") == name]
    return name if len(alike) == 1 else name + " at " + ", ".join(member.get("peerURLs") or ["no address"])


def etcd() -> dict[str, Any]:
    """Return this controller's member, the members it knows, alarms, and whether a majority responds."""
    connection = http.client.HTTPSConnection("127.0.0.1", 2379, context=etcd_context(), timeout=PATIENCE)
    try:
        status = post(connection, "/v3/maintenance/status")
        if status.get("leader", "0") == "0":  # After the majority is lost, a member knows no leader (etcd, raft).
            return {"error": "; ".join(["no member leads", *status.get("errors", ())])}
        members = post(connection, "/v3/cluster/member/list")["members"]
        alarms = post(connection, "/v3/maintenance/alarm", action="GET").get("alarms", ())
        # Such a read needs a majority; without one it fails.
        post(connection, "/v3/kv/range", key=base64.b64encode(b"health").decode())
    except ConnectionRefusedError:
        return {"error": "refuses connections"}
    except WrongAnswer as error:
        return {"error": str(error)}
    except socket.timeout:
        return {"error": f"no answer within {PATIENCE} s"}
    data = os.stat("/var/lib/etcd")
    return {
        "error": "",
        "leader": status.get("leader", "0"),
        "version": status["version"],
        "bytes": int(status["dbSize"]),
        "quota": int(status.get("dbSizeQuota", 0)),
        "members": {label(one, members): [one.get("clientURLs") or [], bool(one.get("isLearner"))] for one in members},
        "alarms": sorted({one["alarm"] for one in alarms if one.get("alarm", "NONE") != "NONE"}),
        "unauthenticated": query_without_certificate(),
        "data": [data.st_uid, data.st_mode & 0o777],
    }


def stored() -> dict[str, Any]:
    """Return how secrets are stored in etcd: the prefixes of their values, the count of each, and the keys of those in clear text."""
    connection = http.client.HTTPSConnection("127.0.0.1", 2379, context=etcd_context(), timeout=PATIENCE)
    kinds: dict[str, int] = {}
    clear: list[str] = []
    at = SECRETS
    end = base64.b64encode(SECRETS[:-1] + b"0").decode()
    while True:
        page = post(connection, "/v3/kv/range", key=base64.b64encode(at).decode(), range_end=end, limit=AT_ONCE)
        found = page.get("kvs", ())
        for pair in found:
            name, value = base64.b64decode(pair["key"]), base64.b64decode(pair["value"])
            mark = re.match(rb"k8s:enc:(\w+):", value)
            kind = mark[1].decode() if mark else "clear"
            kinds[kind] = kinds.get(kind, 0) + 1
            clear += [] if mark else [name[len(SECRETS) :].decode()]
        if not page.get("more"):
            return {"kinds": kinds, "clear": clear[:20]}
        at = base64.b64decode(found[-1]["key"]) + b"\0"


def provider() -> str:
    """Return the provider with which the running API server would encrypt the next secret."""
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as stream:
                words = stream.read().decode("utf-8", "replace").split("\0")
        except OSError:  # The process has ended meanwhile.
            continue
        if os.path.basename(words[0]) == "kube-apiserver":
            if "--encryption-provider-config=" + ENCRYPTION not in words:
                return "none: the API server runs without it"
            with open(ENCRYPTION) as stream:
                first = re.search(r"providers:\s*\n\s*- (\w+):", stream.read())
            return first[1] if first else "none"
    return "none: no API server runs"


def secrets() -> dict[str, Any]:
    """Return how secrets are encrypted at rest."""
    return {**stored(), "next": provider()}


def digest(path: str) -> str:
    """Return the digest of a file's bytes; empty if the file is missing."""
    try:
        with open(path, "rb") as stream:
            return hashlib.sha256(stream.read()).hexdigest()
    except FileNotFoundError:
        return ""


def manifests() -> dict[str, str]:
    """Return the manifest of each static pod next to the one that kubeadm wrote last."""
    with open(STAMP) as stream:
        stamped = json.load(stream)
    states = {True: "as written", False: "edited"}
    return {
        part: states[found == known] if found else "missing"
        for part, known in stamped.items()
        if part != "config"
        for found in [digest(f"{MANIFESTS}/{part}.yaml")]
    }


def tail(path: str) -> tuple[int, list[bytes]]:
    """Return a file's size and the whole lines among its last bytes."""
    with open(path, "rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - TAIL))
        return size, stream.read().splitlines()[1 if size > TAIL else 0 :]


def log_end(path: str) -> tuple[int, list[bytes]]:
    """Return the same of a log; if it was rotated and holds few lines yet, with the lines of the rotated file."""
    size, lines = tail(path)
    before = sorted(glob.glob(path.replace(".log", "-*.log"))) if size < TAIL else []
    return size, (tail(before[-1])[1] if before else []) + lines


def recorded_contents(line: bytes) -> list[str]:
    """Return the request of an audit event that records contents. A cut line, such as one that is being written, is searched as text."""
    try:
        event = json.loads(line)
    except ValueError:
        return ["an incomplete line"] if b'Object":{' in line else []
    if not event.get("requestObject") and not event.get("responseObject"):
        return []
    return [event.get("verb", "") + " " + event.get("requestURI", "")]


def audit() -> dict[str, Any]:
    """Request secrets anonymously, which is refused and must be recorded; then return the end of the audit log."""
    tls, mark = ssl._create_unverified_context(), "rackwright-" + os.urandom(8).hex()
    connection = http.client.HTTPSConnection("127.0.0.1", 6443, context=tls, timeout=PATIENCE)
    connection.request("GET", "/api/v1/namespaces/kube-system/secrets", headers={"User-Agent": mark})
    connection.getresponse().read()
    size, noted, ends = 0, False, time.monotonic() + PATIENCE
    lines: list[bytes] = []
    while not noted and time.monotonic() < ends:  # The response arrives before the line is written.
        time.sleep(0.05)
        size, lines = log_end(AUDIT)
        noted = any(mark.encode() in line for line in lines)
    recorded = []
    for line in lines:
        if b'"resource":"secrets"' in line:
            recorded += recorded_contents(line)
    return {"is_recorded": noted, "size": size, "lines": len(lines), "secret_entries": recorded[-5:]}


TOPICS = {"etcd": etcd, "secrets": secrets, "manifests": manifests, "audit": audit}


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Query one topic; exit with the reason if there is no response."""
    try:
        return TOPICS[request["topic"]]()
    except (OSError, ValueError, KeyError, http.client.HTTPException) as trouble:
        sys.exit(str(trouble) or repr(trouble))
