"""Which jobs are suspicious: shares of waits as they were measured, samples recorded in a lab, and what could not be determined."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.rows import each_row

from rackwright.report.jobs.document import JobsReport, heads, lines, rows
from rackwright.report.jobs.samples import GpuSample, JobTotals, NodeSample, RankSample, RunningJob, Wait, classify, read_jobs, read_node
from rackwright.report.jobs.suspicion import Diagnosis, Finding, Kind, diagnose
from rackwright.report.schemas import schema_errors

NOW = 1_795_000_000.0
JOB = RunningJob("7", "7", "alice", 2001, "RUNNING", NOW - 600, ("w0", "w1", "w2"), name="train")
FUTEX, SLEEP, FUSE, STOPPED = "S futex_do_wait", "S hrtimer_nanosleep", "D request_wait_answer", "T do_signal_stop"


def rank(number: int | None, waits: Mapping[str, int], **more: Any) -> RankSample:
    """Return a rank of three, on a node of its own; `waits` are percent, and the rest runs."""
    shares = {**waits, "R": 100 - sum(waits.values())}
    known = {"cpu": 3.0, "run_delay": 0.1, "read": 0, "written": 10**8, **more}
    at = {"node": f"w{number or 0}", "pid": 100 + (number or 0), "job": "7", "step": "0", "source": "RANK", "rank": number, "size": 3}
    return RankSample(**{**at, "command": "python3", "samples": 100, "waits": shares, "seconds": 7.5, "ended": False, **known})


def nodes(ranks: Sequence[RankSample], **more: Any) -> dict[str, NodeSample]:
    """Return the nodes of ranks; each has one more process, of the launcher."""
    found: dict[str, NodeSample] = {}
    for name in dict.fromkeys(one.node for one in ranks):
        own = tuple(one for one in ranks if one.node == name)
        cpu = sum(one.cpu or 0.0 for one in own)
        totals = JobTotals(processes=len(own) + 1, ended=0, cpu=cpu, seconds=7.5, stopped=more.get("stopped", {}).get(name, ()))
        found[name] = NodeSample(
            node=name, ranks=own, jobs={"7": totals}, fabric=more.get("fabric"), gpus_read=more.get("gpus_read", False)
        )
    return found


def judge(ranks: Sequence[RankSample], job: RunningJob = JOB, lost: Mapping[str, str] | None = None, **more: Any) -> Diagnosis:
    job = replace(job, nodes=tuple(dict.fromkeys([*(one.node for one in ranks), *(lost or {})])))
    return diagnose(job, nodes(ranks, **more), lost or {}, NOW)


def named(found: Diagnosis) -> list[tuple[str, int | None, str]]:
    return [(one.kind.value, one.rank, one.node) for one in found.findings]


MEASURED = {
    "undisturbed": ([{FUTEX: 13}, {FUTEX: 17}, {FUTEX: 21}], []),
    "stopped rank": ([{FUTEX: 100}, {STOPPED: 100}, {FUTEX: 100}], [("stopped", 1, "w1")]),
    "stopped for 100 of 150 ms": ([{FUTEX: 45}, {FUTEX: 51}, {STOPPED: 49, FUTEX: 5}], [("stopped", 2, "w2")]),
    "sleeps in each step": ([{SLEEP: 75, FUTEX: 1}, {FUTEX: 77}, {FUTEX: 75}], [("straggling", 0, "w0")]),
    "hangs in storage": ([{FUTEX: 100}, {FUSE: 100}, {FUTEX: 100}], [("waits for storage", 1, "w1")]),
    "reads slowly": ([{FUTEX: 60}, {FUSE: 55, FUTEX: 2}, {FUTEX: 60}], [("waits for storage", 1, "w1")]),
    "computes longer": ([{FUTEX: 45}, {FUTEX: 2}, {FUTEX: 48}], [("straggling", 1, "w1")]),
}
"""Shares of three ranks with gloo on CPUs (docs/jobs.md), and three made up in their manner."""


@each_row("shares,wanted", MEASURED.values(), ids=MEASURED)
def test_measured_shares_name_rank(shares: list[dict[str, int]], wanted: list[tuple[str, int, str]]) -> None:
    found = judge([rank(number, waits) for number, waits in enumerate(shares)])
    assert (named(found), found.undetermined) == (wanted, ())
    assert found.verdict == ("suspicious" if wanted else "not suspicious")


def test_evidence_says_what_rank_does_and_how_much_longer() -> None:
    (found,) = judge([rank(0, {SLEEP: 75, FUTEX: 1}), rank(1, {FUTEX: 77}), rank(2, {FUTEX: 75})]).findings
    assert "sleeps in 75 % of 100 samples (hrtimer_nanosleep)" in found.evidence.replace("75%", "75 %")
    assert "4.0 times as long" in found.evidence
    assert "w0" in found.remedy and "100" in found.remedy


@each_row(
    "others,own,times,straggles",
    [
        (30, 2, 1, True),
        (29, 2, 9, False),  # below the share from which ranks wait for another
        (50, 39, 1, False),  # 1.6 standard errors
        (50, 39, 4, True),
        (50, 41, 9, False),  # 1.18 times as long: within 20 %
        (90, 85, 9, True),
        (100, 97, 1, False),
    ],
)
def test_straggler_takes_fifth_longer_while_others_wait(others: int, own: int, times: int, straggles: bool) -> None:
    ranks = [rank(0, {FUTEX: others}), rank(1, {FUTEX: own}), rank(2, {FUTEX: others})]
    found = judge([replace(one, samples=100 * times, waits={seen: times * n for seen, n in one.waits.items()}) for one in ranks])
    assert [one.kind for one in found.findings] == [Kind.STRAGGLING] * straggles


RECORDED = {
    "undisturbed": [],
    "undisturbed-without-cpu": [("no CPU", 0), ("no CPU", 1)],
    "stopped": [("stopped", 1)],
    "stopped-two-thirds": [("stopped", 0)],
    "sleeps": [("straggling", 1)],
    "half-more-work": [("no CPU", 1)],
}


@each_row("name,wanted", RECORDED.items(), ids=RECORDED)
def test_recorded_samples_name_rank(name: str, wanted: list[tuple[str, int]]) -> None:
    """Two ranks of PyTorch 2.6 with gloo in a lab (docs/jobs.md), on two cores beside other work: ranks lacked CPU in two of the cases."""
    case = json.loads((Path(__file__).parent / "captured/jobs/gloo.json").read_text())[name]
    ranks = [RankSample(**{**one, "gpus": ()}) for one in case["ranks"]]
    totals = JobTotals(processes=4, ended=0, cpu=sum(one.cpu or 0.0 for one in ranks), seconds=7.5, stopped=())
    nodes = {one.node: NodeSample(node=one.node, ranks=(one,), jobs={one.job: totals}) for one in ranks}
    job = replace(JOB, raw=ranks[0].job, nodes=tuple(nodes), started=case["started"])
    found = diagnose(job, nodes, {}, case["time"])
    assert ([(one.kind.value, one.rank) for one in found.findings], found.undetermined) == (wanted, ())


def test_slow_node_has_all_its_ranks_named() -> None:
    ranks = [replace(rank(number, {FUTEX: 3 if number < 2 else 60}), node=f"w{number // 2}", size=6) for number in range(6)]
    assert named(judge(ranks)) == [("straggling", 0, "w0"), ("straggling", 1, "w0")]


def test_more_than_half_of_ranks_are_not_to_blame() -> None:
    """Two of three ranks work and one waits: the work is distributed so, or the one is faster."""
    assert judge([rank(0, {FUTEX: 3}), rank(1, {FUTEX: 3}), rank(2, {FUTEX: 60})]).findings == ()


def test_rank_that_copies_does_not_hang_in_storage() -> None:
    alone = replace(rank(0, {FUSE: 95}, written=0), size=1)
    assert [one.kind for one in judge([alone]).findings] == [Kind.STORAGE]
    assert "moved no byte" in judge([alone]).findings[0].evidence
    assert judge([replace(alone, written=4096)]).findings == () and judge([replace(alone, read=4096)]).findings == ()
    assert [one.kind for one in judge([replace(alone, read=None, written=None)]).findings] == [Kind.STORAGE], "unknown bytes excuse nothing"


def test_rank_without_cpu_is_named() -> None:
    found = judge([rank(0, {FUTEX: 20}), rank(1, {FUTEX: 20}, run_delay=0.26 * 7.5), rank(2, {FUTEX: 20}, run_delay=0.02 * 7.5)])
    assert named(found) == [("no CPU", 1, "w1")]
    assert "0.26 s of each second" in found.findings[0].evidence


def test_straggler_without_cpu_is_named_once() -> None:
    assert named(judge([rank(0, {FUTEX: 60}), rank(1, {FUTEX: 1}, run_delay=4.0), rank(2, {FUTEX: 60})])) == [("no CPU", 1, "w1")]


def test_straggler_is_named_if_all_lack_cpu() -> None:
    lacks = {"run_delay": 2.3}
    found = judge([rank(0, {FUTEX: 60}, **lacks), rank(1, {FUTEX: 1}, **lacks), rank(2, {FUTEX: 60}, **lacks)])
    assert named(found)[0] == ("straggling", 1, "w1") and len(found.findings) == 4


def test_ranks_that_all_wait_hang_without_culprit() -> None:
    ranks = [rank(number, {FUTEX: 100}, cpu=0.0) for number in range(3)]
    (found,) = judge(ranks, fabric=0).findings
    assert (found.kind, found.rank) == (Kind.HUNG, None)
    assert "0 bytes on the fabric" in found.evidence and "fabric" not in judge(ranks).findings[0].evidence
    seen = nodes(ranks, fabric=0)
    seen["w2"] = replace(seen["w2"], fabric=None)
    assert "fabric" not in diagnose(JOB, seen, {}, NOW).findings[0].evidence, "one node does not count"


def test_ranks_that_all_sleep_are_idle() -> None:
    assert [one.kind for one in judge([rank(number, {SLEEP: 90, FUTEX: 10}, cpu=0.0) for number in range(3)]).findings] == [Kind.IDLE]


def test_waiting_ranks_that_use_cpu_do_not_hang() -> None:
    """Another thread works: a pool of threads, or a data loader in the process."""
    assert judge([rank(number, {FUTEX: 100}, cpu=5.0) for number in range(3)]).findings == ()


def test_missing_rank_is_named_if_all_nodes_answered() -> None:
    ranks = [rank(0, {FUTEX: 100}, cpu=0.0), rank(2, {FUTEX: 100}, cpu=0.0)]
    assert [(one.kind, one.rank) for one in judge(ranks).findings] == [(Kind.MISSING, 1)]
    found = judge(ranks, lost={"w1": "no response over SSH"})
    assert (found.findings, found.undetermined, found.verdict) == ((), ("w1: no response over SSH",), "undetermined")


def test_tasks_of_srun_may_end_before_others() -> None:
    assert (
        judge([replace(rank(0, {FUTEX: 20}), source="SLURM_PROCID"), replace(rank(2, {FUTEX: 20}), source="SLURM_PROCID")]).findings == ()
    )


def test_idle_allocation_is_named_after_a_minute() -> None:
    shell = replace(rank(None, {SLEEP: 100}, cpu=0.0), source="", size=None, step="batch")
    assert [one.kind for one in judge([shell]).findings] == [Kind.IDLE]
    young = replace(JOB, started=NOW - 59)
    assert (judge([shell], young).findings, judge([shell], young).verdict) == ((), "not suspicious")
    assert judge([replace(shell, cpu=0.1)]).findings == (), "0.013 s per second"


def test_stopped_process_beside_ranks_is_named() -> None:
    found = judge([replace(rank(None, {SLEEP: 50}), source="")], stopped={"w0": (55,)})
    assert [(one.kind, one.pid) for one in found.findings] == [(Kind.STOPPED, 55)]
    found = judge([rank(0, {STOPPED: 100}), rank(1, {FUTEX: 100}), rank(2, {FUTEX: 100})], stopped={"w0": (100,)})
    assert [(one.kind, one.pid) for one in found.findings] == [(Kind.STOPPED, 100)], "the rank itself is named once"
    assert judge([rank(number, {STOPPED: 10}) for number in range(3)], stopped={"w0": (100,)}).findings == (), "by chance at both ends"


class TestUndetermined:
    def test_hidden_waits(self) -> None:
        """Root without CAP_SYS_PTRACE reads 0; states are still known."""
        found = judge([rank(0, {"S ?": 60}), rank(1, {"S ?": 5}), rank(2, {"S ?": 60})])
        assert found.verdict == "undetermined" and "rank 0 on w0 (pid 100)" in found.undetermined[0] and len(found.undetermined) == 2
        assert named(judge([rank(0, {"S ?": 100}), rank(1, {"T ?": 100}), rank(2, {"S ?": 100})])) == [("stopped", 1, "w1")]

    def test_ended_and_rare_samples(self) -> None:
        found = judge([rank(0, {FUTEX: 90}), rank(1, {FUTEX: 1}, ended=True), rank(2, {FUTEX: 90})])
        assert (found.findings, found.undetermined) == ((), ("rank 1 on w1 (pid 101) ended while it was sampled",))
        few = replace(rank(1, {}), samples=49, waits={STOPPED: 49})
        found = judge([rank(0, {FUTEX: 90}), few, rank(2, {FUTEX: 90})])
        assert found.findings == () and "49 times only" in found.undetermined[0]

    def test_programs_of_script_may_end(self) -> None:
        found = judge([replace(rank(None, {}, ended=True), source="", size=None, step="batch", samples=3)])
        assert (found.verdict, found.undetermined) == ("not suspicious", ())

    def test_spinning_ranks(self) -> None:
        found = judge([rank(number, {FUTEX: 1}) for number in range(3)])
        assert found.verdict == "undetermined" and found.undetermined[0].startswith("stragglers: no rank waits in a futex")
        found = judge([rank(0, {STOPPED: 100}), *(rank(number, {FUTEX: 1}) for number in (1, 2))])
        assert found.undetermined == (), "the others spin and the reason is known"
        assert judge([replace(rank(0, {}), size=1)]).verdict == "not suspicious", "one rank waits for no other"

    def test_node_without_process_of_job(self) -> None:
        seen = nodes([rank(0, {FUTEX: 20}), rank(1, {FUTEX: 20})])
        seen["w2"] = NodeSample(node="w2", ranks=(), jobs={}, errors=("Operation not permitted",))
        found = diagnose(JOB, seen, {}, NOW)
        assert found.findings == () and found.verdict == "undetermined"
        assert found.undetermined[:1] == ("w2: Operation not permitted",) and "no process of the job" in found.undetermined[1]

    @each_row("state", ["SUSPENDED", "COMPLETING", "CONFIGURING"])
    def test_state_in_which_processes_rest(self, state: str) -> None:
        found = judge([rank(0, {STOPPED: 100})], replace(JOB, state=state))
        assert found.findings == () and state in found.undetermined[0]

    def test_unread_gpus(self) -> None:
        seen = {
            name: replace(node, gpu_error="nvidia-smi: no answer in 10 s") for name, node in nodes([replace(rank(0, {}), size=1)]).items()
        }
        job = replace(JOB, nodes=("w0",))
        assert diagnose(replace(job, tres="gres/gpu:8"), seen, {}, NOW).verdict == "undetermined"
        assert "no answer" not in str(diagnose(job, seen, {}, NOW).undetermined)


class TestGpus:
    """Made up after figures of others: no GPU was measured."""

    @staticmethod
    def gpu(busy: float, power: float | None) -> tuple[GpuSample, ...]:
        return (GpuSample(uuid="GPU-1", index="0", busy=busy, power=power, limit=700.0),)

    def test_waiters_spin_without_power_and_spared_rank_is_named(self) -> None:
        spins = {"gpus": self.gpu(100.0, 130.0)}
        found = judge([rank(0, {}, **spins), rank(1, {}, gpus=self.gpu(0.0, 110.0)), rank(2, {}, **spins)])
        no_power = Kind.NO_POWER.value
        assert named(found) == [("straggling", 1, "w1"), (no_power, 0, "w0"), (no_power, 2, "w2")]
        assert "busy 100 % at 130 of 700 W" in found.findings[1].evidence and "Never measured with NCCL" in found.findings[1].evidence

    @each_row("busy,power", [(100.0, 211.0), (89.0, 130.0), (100.0, None)])
    def test_power_low_use_and_unknown_power_are_not_suspicious(self, busy: float, power: float | None) -> None:
        assert judge([rank(number, {}, gpus=self.gpu(busy, power)) for number in range(3)]).findings == ()

    def test_gpus_without_process_are_idle(self) -> None:
        job = replace(JOB, tres="gres/gpu:8")
        single = [replace(rank(0, {}), size=1)]
        assert [one.kind for one in judge(single, job, gpus_read=True).findings] == [Kind.IDLE]
        assert judge(single, job).findings == () and judge(single, gpus_read=True).findings == ()
        assert judge([replace(single[0], gpus=self.gpu(1.0, 80.0))], job, gpus_read=True).findings == ()


def test_ranks_are_those_of_the_step_that_has_most() -> None:
    """Beside torchrun's ranks: the batch script, the launcher with a rank of Slurm, and a step that runs on one node."""
    ranks = [rank(number, {FUTEX: 20}) for number in range(3)]
    others = [
        replace(rank(0, {STOPPED: 100}), step="extern", source="", rank=None),
        replace(rank(0, {SLEEP: 100}), source="SLURM_PROCID"),
        replace(rank(0, {SLEEP: 100}), step="batch", source="", rank=None),
        replace(rank(0, {SLEEP: 100}), step="1"),
    ]
    assert judge([*others, *ranks]).ranks == tuple(ranks)
    tasks = [replace(rank(number, {SLEEP: 100}), source="SLURM_PROCID", step="1") for number in range(4)]
    assert judge([*tasks, *ranks]).ranks == tuple(ranks), "a library knows its ranks better than Slurm does"
    assert judge(others[:1]).ranks == (), "the step extern has a sleeping process of Slurm's own"


@each_row(
    "seen,wait",
    [
        ("R", Wait.RUNS),
        ("S futex_wait_queue", Wait.OTHERS),
        ("S do_freezer_trap", Wait.STOPPED),
        ("D __refrigerator", Wait.STOPPED),
        ("D rpc_wait_bit_killable", Wait.STORAGE),
        ("D folio_wait_bit_common", Wait.STORAGE),
        ("S do_poll.constprop.0", Wait.OTHER),
        ("t ptrace_stop", Wait.OTHER),
        ("D ?", Wait.HIDDEN),
    ],
)
def test_names_of_kernels_are_classified(seen: str, wait: Wait) -> None:
    assert classify(seen) is wait


class TestDocument:
    @pytest.fixture
    def report(self) -> JobsReport:
        found = judge([rank(0, {STOPPED: 100}), rank(1, {FUTEX: 100}), rank(2, {FUTEX: 100})], lost={"w3": "no response over SSH"})
        return JobsReport("lab", NOW, (found.job,), 7.5, (found,), ("login1: no response",))

    def test_json_follows_schema(self, report: JobsReport) -> None:
        assert schema_errors("jobs", report.as_dict()) == []
        assert schema_errors("jobs", replace(report, diagnoses=(), seconds=None).as_dict()) == []
        (job,) = report.as_dict()["jobs"]
        assert (job["verdict"], job["findings"][0]["rank"], job["ranks"][0]["waits"]) == ("suspicious", 0, {STOPPED: 100, "R": 0})

    def test_table_and_lines(self, report: JobsReport) -> None:
        assert heads(report)[-1] == "verdict" and heads(replace(report, diagnoses=()))[-1] == "nodes"
        assert rows(report)[0][:3] == ["7", "train", "alice"] and rows(report)[0][-1] == "suspicious"
        shown = list(lines(report))
        assert shown[1].startswith("  stopped: rank 0 on w0 (pid 100): it is stopped in 100%")
        assert "kill -CONT 100" in shown[2] and shown[3] == "  could not be determined: w3: no response over SSH"

    @each_row(
        "findings,undetermined,code",
        [((), (), 0), ((), ("x",), 3), ((Finding(kind=Kind.IDLE, job="7", evidence=""),), ("x",), 1)],
    )
    def test_exit_codes(self, findings: tuple[Finding, ...], undetermined: tuple[str, ...], code: int) -> None:
        found = Diagnosis(job=JOB, findings=findings, undetermined=undetermined)
        assert JobsReport("lab", NOW, (JOB,), 7.5, (found,)).exit_code == code


def test_answers_of_programs_are_read() -> None:
    row = {"raw": "9", "id": "8_1", "user": "a", "uid": 1, "state": "RUNNING", "started": None, "nodes": ["w0"]}
    (job,) = read_jobs({"jobs": [{**row, "tres": "N/A", "partition": "gpu", "name": "x\x1b[31m"}]})
    assert (job.job, job.raw, job.asks_for_gpus, job.name) == ("8_1", "9", False, "x\\x1b[31m")
    one = {"pid": 1, "job": "9", "step": "0", "source": "RANK", "rank": 0, "size": 1, "command": "x", "samples": 1, "waits": {"R": 1}}
    one |= {"seconds": 0.0, "ended": False, "cpu": 0.0, "run_delay": None, "read": None, "written": None, "gpus": ["b", "gone"]}
    gpu = {"uuid": "b", "index": "1", "busy": [90.0, None, 100.0], "power": [None], "limit": 700.0}
    totals = {"processes": 1, "ended": 0, "cpu": 0.0, "seconds": 7.5, "stopped": [4]}
    answer = {
        "ranks": [one],
        "jobs": {"9": totals},
        "gpus": [gpu],
        "apps": True,
        "gpu_error": "",
        "network": 5,
        "fabric": None,
        "errors": [],
    }
    node = read_node("w0", answer)
    (found,) = node.ranks
    assert [(read.busy, read.power, read.power_share) for read in found.gpus] == [(95.0, None, None)]
    assert (found.delay_share, found.cpu_share, node.jobs["9"].stopped, node.gpus_read) == (None, None, (4,), True)
    with pytest.raises(KeyError):
        read_node("w0", {"ranks": []})
