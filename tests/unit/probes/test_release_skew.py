"""Releases of kubelets and of etcd beside those of the plan."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from support.verdicts import verdict_of

from rackwright.catalog import kubernetes
from rackwright.checks.cluster import test_etcd, test_kubernetes
from rackwright.checks.cluster.probes.control import Etcd
from rackwright.report.verdict import Verdict

PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("kubelet", "expected", "said"),
    [
        ("v1.36.2", PASSED, ""),
        ("v1.36.0", FAILED, "found v1.36.0 (another patch release)"),
        ("v1.36.2+k3s1", FAILED, "another patch release"),
        ("v1.35.3-eks-1a2b3c4", FAILED, "1 minor release behind: supported"),
        ("v1.33.9", FAILED, "3 minor releases behind: supported"),
        ("v1.32.0", FAILED, "4 minor releases behind: not supported"),
        ("v1.37.1", FAILED, "newer than the API server: not supported"),
        ("v2.0.0", FAILED, "newer than the API server: not supported"),
        ("", UNKNOWN, 'the release of the kubelet is ""'),
        ("[N/A]", UNKNOWN, 'the release of the kubelet is "[N/A]"'),
    ],
)
def test_kubelet_skew_is_named(kubelet, expected, said):
    given = {"kubernetes_node": SimpleNamespace(kubelet=kubelet), "cluster": SimpleNamespace(scheduler=SimpleNamespace(version="1.36.2"))}
    found, why = verdict_of(test_kubernetes.test_version_matches_plan, {}, **given)
    assert (found, said in why) == (expected, True), why


@pytest.mark.parametrize(
    ("release", "etcd", "expected", "said"),
    [
        ("1.36.2", "3.6.8", PASSED, ""),
        ("1.36.2", "3.6.4", FAILED, "expected 3.6.8, found 3.6.4"),
        ("1.36.2", "3.5.24", FAILED, "found 3.5.24"),
        ("1.34.1", "3.6.4", PASSED, ""),
        ("1.37.1", "3.6.8", FAILED, "expected 3.7.0"),
        ("1.20.0", "3.4.13", UNKNOWN, "Kubernetes 1.20.0 is not in the catalogue"),
    ],
)
def test_etcd_release_follows_kubernetes(release, etcd, expected, said):
    given = {"etcd": Etcd("", version=etcd), "cluster": SimpleNamespace(scheduler=SimpleNamespace(version=release))}
    found, why = verdict_of(test_etcd.test_version_matches_release, {}, **given)
    assert (found, said in why) == (expected, True), why


def test_every_release_names_its_etcd():
    assert all(kubernetes.etcd(release) for release in kubernetes.releases())
