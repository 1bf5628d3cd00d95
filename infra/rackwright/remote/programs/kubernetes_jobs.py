"""Run on the node, imported by job_submission: Jobs of Kubernetes, submitted as the user whose kubeconfig is in his home.

Every Job has a deadline and a time to live, so that nothing remains of a run that was killed together with this program.
Python 3.9, standard library only.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rackwright.remote.programs.kubernetes_client import Api, ApiRefusedError
from rackwright.remote.programs.quantities import whole_number

Object = dict[str, Any]

RUN = "rackwright-accept"
"""The label of all objects of a run."""
LOOK_EVERY = 0.3
PLACED = 20
"""Seconds for which the scheduler may find no node for a pod: it may not know yet of a device that was just released."""
MOUNTED = 40
"""Seconds for which a volume may fail to mount. A kubelet may request a claim before the API knows that one of its pods has it, and retries
after 10 to 15 s (backOffPeriod, pkg/kubelet/kubelet.go; its jitter, pod_workers.go)."""
AFTER_A_FAILURE = 10
"""Seconds that the other pods get after one has failed: they may wait for it in vain."""
HOPELESS = {
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
}
TASK = "task"
"""The container of a job (rackwright.checks.acceptance.harness.kubernetes). A site's webhooks may add others, such as a mesh's proxy."""
ENDED = ("Succeeded", "Failed")
made: set[tuple[str, str]] = set()
"""Namespaces and runs for which objects were created."""


@functools.cache
def api() -> Api:
    """Return a client of the API with the user's credentials."""
    path = os.environ.get("KUBECONFIG") or os.path.join(os.environ["HOME"], ".kube", "config")
    try:
        return Api(path)
    except KeyError as missing:
        raise RuntimeError(f"{path}: holds no {missing}, which a kubeconfig of this cluster has") from None


def version() -> dict[str, str]:
    """Return the name and the release of the scheduler."""
    try:
        return {"kubernetes": api().get("/version")["gitVersion"]}
    except ApiRefusedError as refused:
        raise RuntimeError("the API refuses this user: " + str(refused)) from None


class Room:
    """What the namespace's quota leaves. Jobs start in the order of submission, so that two that must meet start together."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.limits: dict[str, int] | None = None
        self.held: dict[str, int] = {}
        self.next = 0

    def measure(self, namespace: str) -> None:
        """Read the limits and subtract what other users hold, once; later usage is the run's own."""
        if self.limits is None:
            self.limits = {}
            for quota in api().get("/api/v1/namespaces/" + namespace + "/resourcequotas")["items"]:
                status = quota.get("status") or {}
                for key, hard in (status.get("hard") or {}).items():
                    if key in ("pods", "requests.nvidia.com/gpu"):
                        left = whole_number(hard) - whole_number((status.get("used") or {}).get(key, 0))
                        self.limits[key] = min(left, self.limits.get(key, left))

    def lacks(self, wants: Mapping[str, int]) -> str:
        """Return why a job would never fit; empty if it fits."""
        limits = self.limits or {}
        short = [f"{key}: {limits[key]} are left, the job needs {count}" for key, count in wants.items() if count > limits.get(key, count)]
        return "the namespace's quota is too small: " + ", ".join(short) if short else ""

    def fits(self, wants: Mapping[str, int]) -> bool:
        """Return whether there is room now."""
        limits = self.limits or {}
        return all(self.held.get(key, 0) + count <= limits.get(key, count) or key not in limits for key, count in wants.items())

    def enter(self, turn: int, wants: Mapping[str, int], gone: threading.Event) -> bool:
        """Wait for the job's turn and for room; return False if the run was cancelled."""
        with self.changed:
            while not gone.is_set():
                if self.next >= turn and self.fits(wants):
                    self.next = turn + 1
                    for key, count in wants.items():
                        self.held[key] = self.held.get(key, 0) + count
                    self.changed.notify_all()
                    return True
                self.changed.wait(0.5)
        return False

    def skip(self, turn: int) -> None:
        """Skip a job that never fits, so that the next one can start."""
        with self.changed:
            while self.next < turn:
                self.changed.wait(0.5)
            self.next = turn + 1
            self.changed.notify_all()

    def leave(self, wants: Mapping[str, int]) -> None:
        """Release the room of a job."""
        with self.changed:
            for key, count in wants.items():
                self.held[key] -= count
            self.changed.notify_all()


ROOM = Room()


def begin(jobs: Sequence[Object]) -> None:
    """Begin a round: its jobs start in this order."""
    if jobs:
        ROOM.measure(jobs[0]["namespace"])
    ROOM.next = 0
    for turn, one in enumerate(jobs):
        one["turn"] = turn


def run(job: Object, gone: threading.Event) -> Object:
    """Run one job to its end; return the output of its pods and the reasons why pods have none."""
    try:
        lacks = job["refused"] or ROOM.lacks(job["wants"])
        if lacks:
            ROOM.skip(job["turn"])
            return {"status": 1, "out": "", "err": lacks, "silent": {}}
        if not ROOM.enter(job["turn"], job["wants"], gone):
            return {"status": 130, "out": "", "err": "cancelled", "silent": {}}
        try:
            return JobRun(job, gone).run()
        finally:
            ROOM.leave(job["wants"])
    except (ApiRefusedError, OSError) as error:
        return {"status": 1, "out": "", "err": str(error), "silent": {}}


def objects(namespace: str, kind: str) -> str:
    """Return the path of the objects of a kind."""
    return {
        "Job": "/apis/batch/v1/namespaces/{}/jobs",
        "Service": "/api/v1/namespaces/{}/services",
        "Pod": "/api/v1/namespaces/{}/pods",
        "Event": "/api/v1/namespaces/{}/events",
    }[kind].format(namespace)


class JobRun:
    """The life of one job, from creation to removal."""

    def __init__(self, job: Object, gone: threading.Event) -> None:
        self.job, self.gone = job, gone
        self.namespace, self.label = job["namespace"], job["label"]
        self.began = time.time()
        self.pods: dict[int, Object] = {}
        self.stuck: dict[int, str] = {}
        self.failed: float | None = None
        self.late = False

    def run(self) -> Object:
        """Create the job, watch it, read its output, remove it."""
        made.add((self.namespace, self.job["run"]))
        try:
            for one in self.job["objects"]:
                api().post(objects(self.namespace, one["kind"]), one)
            while not self.is_finished():
                time.sleep(LOOK_EVERY)
            return self.result()
        finally:
            remove(self.namespace, self.label)

    def is_finished(self) -> bool:
        """Return whether there is nothing left to wait for."""
        found = api().get(objects(self.namespace, "Pod") + "?labelSelector=job-name%3D" + self.label)["items"]
        self.pods = {
            int((pod["metadata"].get("annotations") or {}).get("batch.kubernetes.io/job-completion-index", 0)): pod for pod in found
        }
        waited = time.time() - self.began
        self.stuck = {index: why for index in range(self.job["pods"]) if (why := self.blocked_reason(self.pods.get(index), waited))}
        ended = {index for index, pod in self.pods.items() if pod["status"].get("phase") in ENDED}
        if self.failed is None and (self.stuck or any(self.pods[index]["status"]["phase"] == "Failed" for index in ended)):
            self.failed = time.time()
        self.late = waited > self.job["seconds"]
        waiting = self.failed is not None and time.time() - self.failed < AFTER_A_FAILURE
        running = set(range(self.job["pods"])) - ended - set(self.stuck)
        return not running or self.late or self.gone.is_set() or (self.failed is not None and not waiting)

    def blocked_reason(self, pod: Object | None, waited: float) -> str:
        """Return why a pod will not run; empty if it runs or still may."""
        if pod is None:
            return (self.event(self.label) or "no pod was created for it") if waited > PLACED else ""
        status = pod["status"]
        if status.get("phase") != "Pending":
            return ""
        for condition in status.get("conditions") or []:
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return (condition.get("message") or "no node fits it") if waited > PLACED else ""
        for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
            waits = (container.get("state") or {}).get("waiting") or {}
            if waits.get("reason") in HOPELESS:
                return ": ".join(filter(None, (waits["reason"], waits.get("message"))))
        if waited > MOUNTED:
            message = self.event(pod["metadata"]["name"], "FailedMount")
            return message or (f"it did not start within {waited:.0f} s" if waited > self.job["starts"] else "")
        return ""

    def event(self, name: str, reason: str = "") -> str:
        """Return the last warning event about an object."""
        found = api().get(objects(self.namespace, "Event") + "?fieldSelector=type%3DWarning%2CinvolvedObject.name%3D" + name)["items"]
        matching = [one for one in found if not reason or one.get("reason") == reason]
        return "{}: {}".format(matching[-1].get("reason"), matching[-1].get("message")) if matching else ""

    def result(self) -> Object:
        """Return the result of the job at its end."""
        out, err, codes = [], [], []
        for index, pod in sorted(self.pods.items()):
            if pod["status"].get("phase") not in (*ENDED, "Running"):
                continue
            text = self.log(pod)
            out += text.splitlines() if self.job["labelled"] else [f"{index}: {line}" for line in text.splitlines()]
            code, said = ending(pod)
            codes.append(code)
            err += [f"{index}: {line}" for line in said.splitlines()]
        err += [f"pod {index}: {why}" for index, why in sorted(self.stuck.items())]
        if self.gone.is_set():
            status = 130
        elif self.late:
            status = 124
        else:
            status = max(codes, default=1) or (1 if self.stuck or len(codes) < self.job["pods"] else 0)
        return {"status": status, "out": "\n".join([*out, ""]), "err": "\n".join(err), "silent": self.missing_output()}

    def log(self, pod: Object) -> str:
        """Return the log of a pod."""
        with contextlib.suppress(ApiRefusedError, OSError):
            return str(api().call("GET", objects(self.namespace, "Pod") + "/" + pod["metadata"]["name"] + "/log?container=" + TASK))
        return ""

    def missing_output(self) -> dict[str, str]:
        """Return the nodes on which nothing ran, with the reason. A pod that was not scheduled is attributed to a node that has no pod."""
        on = {index: pod["spec"].get("nodeName") for index, pod in self.pods.items()}
        reasons = {on[index]: why for index, why in self.stuck.items() if on.get(index)}
        homeless = [why for index, why in self.stuck.items() if not on.get(index)]
        empty = [node for node in self.job["nodes"] if node not in on.values()]
        reasons.update(zip(empty, homeless))
        for pod in self.pods.values():
            if pod["status"].get("phase") == "Failed":
                reasons.setdefault(pod["spec"].get("nodeName") or "", ending(pod)[1].strip().rpartition("\n")[2] or "it failed")
        return reasons


def ending(pod: Object) -> tuple[int, str]:
    """Return the exit code of a pod's container and its last lines."""
    for container in pod["status"].get("containerStatuses") or []:
        over = (container.get("state") or {}).get("terminated")
        if over and container.get("name", TASK) == TASK:
            return over["exitCode"], over.get("message") or (over.get("reason") or "" if over["exitCode"] else "")
    if pod["status"].get("phase") == "Failed":
        return 1, ": ".join(filter(None, (pod["status"].get("reason"), pod["status"].get("message"))))
    return 0, ""


def remove(namespace: str, label: str) -> None:
    """Delete a job with its pods, and its service."""
    for kind in ("Job", "Service"):
        with contextlib.suppress(ApiRefusedError, OSError):
            api().delete(objects(namespace, kind) + "/" + label, grace=0 if kind == "Job" else None)


def cancel(_label: str) -> None:
    """Do nothing: the job's own thread sees the cancellation and deletes the job."""


def end() -> None:
    """Delete all objects of the run and wait until its pods are gone, at most 10 s per namespace and run."""
    for namespace, name in made:
        query = "?labelSelector=" + RUN + "%3D" + name
        ends = time.time() + 10
        with contextlib.suppress(ApiRefusedError, OSError):
            for kind in ("Job", "Service"):
                for one in api().get(objects(namespace, kind) + query)["items"]:
                    api().delete(objects(namespace, kind) + "/" + one["metadata"]["name"])
            while api().get(objects(namespace, "Pod") + query)["items"] and time.time() < ends:
                time.sleep(LOOK_EVERY)
