"""Forms of the output of perftest, by release, option and failure, and what the phase rdma makes of them."""

from __future__ import annotations

import json

import pytest

from rackwright.checks.acceptance.parsers import perftest
from rackwright.checks.acceptance.phase import Job
from rackwright.checks.acceptance.phases import rdma
from rackwright.errors import UndeterminedError

from .played import FAILED, NODES, PASSED, RAILS, UNKNOWN, judged, scope

LINE = "-" * 87 + "\n"
HEAD = (
    LINE + "                    RDMA_Write BW Test\n Dual-port       : OFF\t\tDevice         : mlx5_0\n"
    " Number of qps   : 4\t\tTransport type : IB\n Connection type : RC\t\tUsing SRQ      : OFF\n Mtu             : 4096[B]\n"
    " Link type       : IB\n Data ex. method : Ethernet\n" + LINE + " local address: LID 0x02 QPN 0x0032 PSN 0x5f2841\n" + LINE
)
TITLES = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
ROW = " 1048576    468930           0.00               393.24\t\t     0.046877\n"
LATENCY_TITLES = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]"
    "   99.9% percentile[usec] \n"
)
LATENCY_ROW = " 2       5000          1.84           4.41         1.92     \t       1.94        \t0.05   \t\t2.31    \t\t4.41   \n"
BANDWIDTH = HEAD + TITLES + ROW + LINE
LATENCY = HEAD.replace("BW Test", "Latency Test") + LATENCY_TITLES + LATENCY_ROW + LINE
FREQUENCY = "Conflicting CPU frequency values detected: 2400.000000 != 1873.463000. CPU Frequency is not max.\n"
UNSTEADY = "Correlation coefficient r^2: 0.81 < 0.9\n"
BANDWIDTHS = {
    "warning between title and row": (BANDWIDTH.replace(ROW, FREQUENCY * 2 + ROW), 393.24),
    "warnings of libibverbs": (
        "libibverbs: Warning: couldn't load driver 'libmana-rdmav34.so': cannot open shared object file\n" + BANDWIDTH,
        393.24,
    ),
    "server waiting": ("\n****\n* Waiting for client to connect... *\n****\n" + BANDWIDTH, 393.24),
    "CRLF": (BANDWIDTH.replace("\n", "\r\n"), 393.24),
    "release that says MB": (BANDWIDTH.replace("Gb/sec", "MB/sec").replace("393.24", "46878.39"), 393.24),
    "release that says MiB": (BANDWIDTH.replace("Gb/sec", "MiB/sec").replace("393.24", "46878.39"), 393.24),
    "service level": (BANDWIDTH.replace("#iterations", "#sl      #iterations").replace("468930  ", "3           468930  "), 393.24),
    "both ports": (
        BANDWIDTH.replace(
            "MsgRate[Mpps]\n",
            "MsgRate[Mpps]   BW Port1[Gb/sec]   MsgRate Port1[Mpps]   BW Port2[Gb/sec]   MsgRate Port2[Mpps]\n",
        ).replace("0.046877\n", "0.046877        196.62            0.023438              196.62            0.023438\n"),
        393.24,
    ),
    "all sizes": (BANDWIDTH.replace(ROW, " 65536      5000             388.41             387.92             0.739899\n" + ROW), 393.24),
    "one row per interval": (BANDWIDTH.replace(ROW, ROW + ROW.replace("393.24", " 92.31") + ROW), 92.31),
    "decimal comma": (BANDWIDTH.replace("393.24", "393,24"), 393.24),
    "release with the least bandwidth": (
        BANDWIDTH.replace("MsgRate[Mpps]\n", "MsgRate[Mpps]        BW min[Gb/sec]\n").replace("0.046877\n", "0.046877\t\t  0.00\n"),
        393.24,
    ),
    "six digits": (BANDWIDTH.replace("393.24", "393.240001"), 393.240001),
    "names by the kernel": (BANDWIDTH.replace("mlx5_0", "roceP2p1s0f0"), 393.24),
}


@pytest.mark.parametrize("form", BANDWIDTHS)
def test_bandwidth_is_read_by_column(form: str) -> None:
    text, expected = BANDWIDTHS[form]
    assert perftest.parse_bandwidth(text).average_gbit_s == pytest.approx(expected, abs=0.01)


SHORT = LATENCY.replace(LATENCY_TITLES, " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]\n")
LATENCIES = {
    "warning between title and row": LATENCY.replace(LATENCY_ROW, FREQUENCY + LATENCY_ROW),
    "release without percentiles": SHORT.replace(LATENCY_ROW, " 2        1000           1.84           4.41         1.92\n"),
    "release with average": LATENCY.replace("    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] ", "").replace(
        LATENCY_ROW, " 2        1000           1.84           4.41         1.92   1.94\n"
    ),
    "all sizes": LATENCY.replace(LATENCY_ROW, LATENCY_ROW + LATENCY_ROW.replace(" 2  ", " 4  ").replace("1.92", "2.00")),
}


@pytest.mark.parametrize("form", LATENCIES)
def test_latency_is_read_by_column(form: str) -> None:
    found = perftest.parse_latency(LATENCIES[form])
    assert (found.message_bytes, found.typical_us) == (2, 1.92)


FAILURES = {
    "completion error after rows": (
        BANDWIDTH.removesuffix(LINE) + " Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\n",
        "error at client",
    ),
    "completion error of the driver": (
        BANDWIDTH + "mlx5: gpu5: got completion with error:\n00000000 00000000\n",
        "got completion with error",
    ),
    "named status after rows": (
        BANDWIDTH + " Failed status 12 (transport retry counter exceeded): wr_id 0 syndrom 0x81\n",
        "retry counter",
    ),
    "exchange failed after rows": (BANDWIDTH + "Failed to exchange data between server and clients\n", "Failed to exchange data"),
    "not a number": (BANDWIDTH.replace("393.24", "-nan"), "unreadable"),
    "no device": ("IB device mlx5_9 not found\n Unable to find the Infiniband/RoCE device\n", "mlx5_9 not found"),
    "no devices": ("No IB devices found\n", "No IB devices"),
    "no memory": (HEAD + "Couldn't allocate MR with error=12\nFailed to create MR\n", "Couldn't allocate MR"),
    "unsteady clock": (BANDWIDTH.replace("393.24", "inf").replace(LINE + TITLES, UNSTEADY + LINE + TITLES), "r^2: 0.81"),
    "no report of an unsteady clock": (HEAD + UNSTEADY + "Can't produce a report\n", "r^2: 0.81 < 0.9"),
    "unknown unit": (BANDWIDTH.replace("Gb/sec", "furlongs"), "no known unit"),
    "a value missing": (BANDWIDTH.replace("0.00", "    "), "4 values under 5 titles"),
}


@pytest.mark.parametrize("form", FAILURES)
def test_failed_test_gives_no_bandwidth(form: str) -> None:
    text, reason = FAILURES[form]
    with pytest.raises(UndeterminedError) as caught:
        perftest.parse_bandwidth(text)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("bandwidth", "status", "expected"),
    [
        (BANDWIDTH, 0, PASSED),
        (BANDWIDTH, 1, UNKNOWN),
        (FAILURES["completion error after rows"][0], 1, UNKNOWN),
        (BANDWIDTHS["one row per interval"][0], 0, FAILED),
        (BANDWIDTH.replace("393.24", "0.00"), 0, UNKNOWN),
        (BANDWIDTH.replace("393.24", "786.48"), 0, UNKNOWN),
    ],
)
def test_pair_is_judged_by_its_status_too(bandwidth: str, status: int, expected: object) -> None:
    """A test by duration prints its rows before it fails."""

    def said(job: Job, node: str, rank: int) -> object:
        client = json.loads(job.arguments[job.arguments.index("--pairs") + 1])[0][1]
        tools = (("ib_write_bw", bandwidth, status), ("ib_write_lat", LATENCY, 0))
        met = [{"rail": rail, "tool": tool, "rc": rc, "out": text, "err": ""} for rail in RAILS for tool, text, rc in tools]
        return {"role": "client", "meetings": met if node == client else []}

    found = judged(rdma, scope(NODES), said)
    assert {found["bandwidth_of_all_pairs", node].verdict for node in NODES} == {expected}
    assert {found["latency_of_all_pairs", node].verdict for node in NODES} == {PASSED}
