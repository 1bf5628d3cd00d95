"""The Slurm roles' files, whole, as they would lie on a cluster's nodes."""

from __future__ import annotations

import functools
import os
import subprocess
import warnings
from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar, trust_as_template
from goldens import Goldens

from rackwright.yaml_loader import load_yaml

ROOT = Path(__file__).parents[2]


TREE = [
    "SwitchName=su1 Nodes=big0",
    "SwitchName=su2 Nodes=small0",
    "SwitchName=apart Nodes=cpu0",
    "SwitchName=spine Switches=su1,su2,apart",
]

OPTIONS_OF_NODE = {"features": ["skylake", "ib"], "weight": 10}
OPTIONS_OF_PARTITION = {
    "default_time": 3600,
    "max_nodes": 2,
    "priority_tier": 4,
    "preempt_mode": "off",
    "grace_time_s": 60,
    "exclusive": True,
    "allow_accounts": ["research", "teaching"],
    "allow_groups": ["owners"],
    "qos": "owners",
    "allow_qos": ["normal", "urgent"],
}
PREEMPTION = {"by": "partition_priority", "mode": "suspend", "gang": True, "exempt_time_s": 1800}


def node(name: str, roles: list[str], os_name: str) -> dict[str, Any]:
    gpus = {"simulated": name != "big0"} if "worker" in roles else None
    return {"name": name, "roles": roles, "os": os_name, "memory_mib": 65536 if "accounting" in roles else 2048, "gpus": gpus}


def lab(os_name: str, power_saving: dict[str, Any] | None = None) -> dict[str, Any]:
    """login0 with all server roles, two workers with eight GPUs each, in containers without control groups."""
    return {
        "cluster": {
            "preinstalled_roles": [],
            "hosts": [
                {"name": "login0", "fqdn": "login0.lab.internal", "address": "10.77.0.16"},
                {"name": "worker0", "fqdn": "worker0.lab.internal", "address": "10.77.0.24"},
                {"name": "worker1", "fqdn": "worker1.lab.internal", "address": "10.77.0.25"},
            ],
            "users": [{"name": "alice"}],
            "storage": [],
            "health": [
                {"check": "node.memory_matches_plan", "group": "nodes", "limit": 0.95},
                {"check": "gpu.count_matches_plan", "group": "gpu", "limit": None},
                {"check": "storage.is_mounted", "group": "storage_client", "limit": None},
            ],
            "scheduler": {
                "kind": "slurm",
                "cluster_name": "lab",
                "controllers": ["login0"],
                "accounting": "login0",
                "submit_hosts": ["login0"],
                "nodes": [{"name": f"worker{n}", "cpus": 8, "memory_mib": 2048, "gpus": 8, "gpu_type": "h100"} for n in (0, 1)],
                "partitions": [{"name": "gpu", "nodes": ["worker0", "worker1"], "default": True, "max_time": None}],
                "accounts": [{"name": "research"}],
                "qos": [{"name": "urgent", "preempts": ["normal"]}],
                "preemption": {"by": "qos", "mode": "requeue", "gang": False, "exempt_time_s": None},
                "drain_timeout_s": 300,
                "health_interval_s": 60,
                "power_saving": power_saving,
                "topology": None,
                "constrains": [],
                "config_overrides": True,
            },
        },
        "nodes": {
            "controller": node("login0", ["login", "controller", "accounting"], os_name),
            "worker": node("worker0", ["worker"], os_name),
        },
    }


def mixed() -> dict[str, Any]:
    """Machines with control groups: two controllers, no accounting, nodes of different sizes, a partition whose nodes are out."""
    cluster: dict[str, Any] = lab("debian-13")["cluster"]
    names = ["ctl0", "ctl1", "big0", "small0", "cpu0"]
    nodes = [
        {"name": "big0", "cpus": 192, "memory_mib": 2060000, "gpus": 8, "gpu_type": "h100"},
        {"name": "small0", "cpus": 2, "threads_per_core": 1, "memory_mib": 32000, "gpus": 1, "gpu_type": "l4"},
        {
            "name": "cpu0",
            "cpus": 64,
            "threads_per_core": 2,
            "sockets": 2,
            "memory_mib": 256000,
            "gpus": 0,
            "gpu_type": None,
            **OPTIONS_OF_NODE,
        },
    ]
    partitions = [
        {"name": "gpu", "nodes": ["big0", "small0"], "default": True, "max_time": 2 * 86400 + 3 * 3600 + 4 * 60 + 5},
        {"name": "all", "nodes": ["big0", "small0", "cpu0"], "default": False, "max_time": None},
        {"name": "spare", "nodes": [], "default": False, "max_time": None},
        {"name": "owners", "nodes": ["cpu0"], "default": False, "max_time": 7 * 86400, **OPTIONS_OF_PARTITION},
    ]
    cluster["hosts"] = [{"name": name, "fqdn": f"{name}.x", "address": f"10.0.0.{index + 1}"} for index, name in enumerate(names)]
    cluster["scheduler"] |= {
        "cluster_name": "mixed", "controllers": ["ctl0", "ctl1"], "accounting": None, "nodes": nodes, "partitions": partitions,
        "accounts": [], "qos": [], "preemption": PREEMPTION, "health_interval_s": None,
        "constrains": ["cores", "memory", "devices"], "config_overrides": False, "topology": {"plugin": "topology/tree", "lines": TREE},
    }  # fmt: skip
    return {
        "cluster": cluster,
        "nodes": {"controller": node("ctl0", ["controller"], "debian-13"), "worker": node("big0", ["worker"], "debian-13")},
    }


CLUSTERS = {
    "lab": lab("debian-13"),
    "lab-debian-12": lab("debian-12"),
    "lab-power-saving": lab("debian-13", {"idle_s": 300, "suspend_timeout_s": 30, "resume_timeout_s": 60, "nodes": ["worker1"]}),
    "mixed": mixed(),
}
TREE_FILE = "etc/slurm/topology.conf"
CONTROLLER = ["etc/slurm/slurm.conf", "etc/slurm/gres.conf", "etc/slurm/cgroup.conf"]
PLUGINS = "etc/slurm/plugstack.conf"
KEPT_ONCE = ("etc/slurm/slurm.conf", "etc/slurm/gres.conf")
ACCOUNTING = ["etc/slurm/slurmdbd.conf", "etc/mysql/mariadb.conf.d/90-rackwright.cnf", "etc/mysql/rackwright-accounting.sql"]
UNIT = "etc/systemd/system/slurmd.service.d/rackwright.conf"
FILES = [
    *(("lab", "slurm_controller", path) for path in [*CONTROLLER, PLUGINS]),
    *(("lab", "slurmdbd", path) for path in ACCOUNTING),
    ("lab", "slurm_worker", "etc/default/slurmd"),
    ("lab", "slurm_worker", "etc/rackwright/health.json"),
    ("lab", "slurm_login", "etc/default/sackd"),
    *(("lab-debian-12", "slurm_controller", path) for path in [*CONTROLLER, "etc/systemd/system/slurmctld.service.d/rackwright.conf"]),
    ("lab-debian-12", "slurmdbd", "etc/slurm/slurmdbd.conf"),
    ("lab-debian-12", "slurm_worker", UNIT),
    ("lab-power-saving", "slurm_controller", "etc/slurm/slurm.conf"),
    ("lab-power-saving", "slurm_controller", "usr/local/libexec/rackwright/slurm-power"),
    ("lab-power-saving", "slurm_worker", UNIT),
    *(("mixed", "slurm_controller", path) for path in CONTROLLER),
    ("mixed", "slurm_controller", TREE_FILE),
    ("lab", "slurm_controller", "etc/rackwright/sacctmgr.conf"),
    ("mixed", "slurm_worker", "etc/default/slurmd"),
    ("mixed", "slurm_worker", UNIT),
]


@functools.cache
def layer(role: str, name: str) -> dict[str, Any]:
    """The variables of one of a role's folders, read once for all tests."""
    loaded: dict[str, Any] = DataLoader().load_from_file(str(ROOT / "roles" / role / name / "main.yml"), trusted_as_template=True)
    return loaded


def variables(cluster: dict[str, Any], role: str) -> dict[str, Any]:
    """What a role sees on the node that it is for."""
    return {
        **layer(role, "defaults"),
        **layer(role, "vars"),
        "cluster": cluster["cluster"],
        "node": cluster["nodes"]["worker" if role == "slurm_worker" else "controller"],
        "group_names": ["nodes", "gpu", "slurm", "role_worker"],
        "secrets": {"munge_key": "bXVuZ2U=", "accounting_password": "not-a-secret"},
    }


@pytest.fixture(scope="module", autouse=True)
def _plugins() -> None:
    """Look-ups are found as ansible-playbook finds them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # another module may have done the same
        init_plugin_loader()


def rendered(cluster: dict[str, Any], role: str, path: str, **given: Any) -> str:
    """The file as the role's own template look-up gives it; `given` are variables that the user sets."""
    template = ROOT / "roles" / role / "templates" / f"{path}.j2"
    templar = Templar(DataLoader(), variables={**variables(cluster, role), **given})
    return str(templar.template(trust_as_template(f"{{{{ lookup('ansible.builtin.template', '{template}') }}}}")))


def kept_as(name: str, path: str) -> str:
    """The golden file: Debian 12's Slurm reads the same file as Debian 13's where it is among those kept once."""
    return f"lab/{path}" if name == "lab-debian-12" and path in KEPT_ONCE else f"{name}/{path}"


@pytest.mark.parametrize(("name", "role", "path"), FILES)
def test_file(name: str, role: str, path: str, goldens: Goldens) -> None:
    """Every line of a configuration was reviewed."""
    goldens.check(f"slurm/{kept_as(name, path)}", rendered(CLUSTERS[name], role, path))


def test_every_template_is_among_them() -> None:
    templates = {(role.name, str(path.relative_to(role / "templates").with_suffix(""))) for role in slurm_roles() for path in files(role)}
    assert templates == {(role, path) for _, role, path in FILES}


def test_every_golden_file_is_tested(goldens: Goldens) -> None:
    """One that is left over would be reviewed and mean nothing."""
    goldens.check_names("slurm", [kept_as(name, path) for name, _, path in FILES])


def slurm_roles() -> list[Path]:
    """Return the roles that configure Slurm daemons; those that switch nodes install no file that Slurm reads."""
    roles = [*(ROOT / "roles").glob("slurm_*"), ROOT / "roles" / "slurmdbd"]
    return sorted(role for role in roles if not role.name.startswith("slurm_power_"))


def files(role: Path) -> list[Path]:
    return sorted((role / "templates").rglob("*.j2"))


def test_a_controller_that_also_computes_reads_its_own_file() -> None:
    cluster = lab("debian-13")
    cluster["nodes"]["worker"]["roles"] = ["controller", "worker"]
    assert 'SLURMD_OPTIONS=""' in rendered(cluster, "slurm_worker", "etc/default/slurmd")


def test_users_add_lines_to_slurm_conf_and_let_slurmd_find_the_gpus() -> None:
    given = {"slurm_controller_parameters": {"MessageTimeout": 30}, "slurm_controller_gres_autodetect": "nvidia"}
    assert "\nMessageTimeout=30\n" in rendered(CLUSTERS["lab"], "slurm_controller", "etc/slurm/slurm.conf", **given)
    assert "\nAutoDetect=nvidia\n" in rendered(CLUSTERS["lab"], "slurm_controller", "etc/slurm/gres.conf", **given)


def test_slurmd_of_real_gpus_starts_after_their_daemons() -> None:
    """Simulated GPUs have a unit that precedes slurmd itself."""
    for gpus, expected in ((None, False), ({"simulated": True}, False), ({"simulated": False}, True)):
        cluster = lab("debian-13")
        cluster["nodes"]["worker"]["gpus"] = gpus
        templar = Templar(DataLoader(), variables=variables(cluster, "slurm_worker"))
        assert templar.template(trust_as_template("{{ slurm_worker_awaits_gpus | bool }}")) is expected
        order = "\nAfter=nvidia-persistenced.service nvidia-fabricmanager.service\n"
        assert (order in rendered(cluster, "slurm_worker", UNIT)) is expected


def test_plugstack_names_no_file_by_a_pattern() -> None:
    """slurmctld skips such files when it sends its configuration to the nodes."""
    lines = rendered(CLUSTERS["lab"], "slurm_controller", PLUGINS, slurm_controller_plugins=["optional spank_site.so"]).splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["optional spank_site.so"]


def test_health_check_ends_before_the_next_one() -> None:
    """Slurm 26.05 requires a timeout below the interval, and has 60 s for both; the releases before do not know the setting."""
    assert "HealthCheckTimeout" not in rendered(CLUSTERS["lab"], "slurm_controller", "etc/slurm/slurm.conf")
    newer = rendered(CLUSTERS["lab"], "slurm_controller", "etc/slurm/slurm.conf", _slurm_controller_version="26.05")
    assert "\nHealthCheckTimeout=59\n" in newer


def test_declared_mail_program_is_the_only_one() -> None:
    given = {"slurm_controller_parameters": {"MailProg": "/usr/bin/mail"}}
    lines = rendered(CLUSTERS["lab"], "slurm_controller", "etc/slurm/slurm.conf", **given).splitlines()
    assert [line for line in lines if line.startswith("MailProg=")] == ["MailProg=/usr/bin/mail"]


@pytest.mark.parametrize(("memory_mib", "pool_mib"), [(65536, 4096), (16384, 2048), (4096, 512), (2048, 512), (1024, 256), (128, 64)])
def test_buffer_pool_is_what_slurmdbd_recommends_where_it_fits(memory_mib: int, pool_mib: int) -> None:
    cluster = lab("debian-13")
    cluster["nodes"]["controller"]["memory_mib"] = memory_mib
    text = rendered(cluster, "slurmdbd", "etc/mysql/mariadb.conf.d/90-rackwright.cnf")
    assert f"\ninnodb_buffer_pool_size = {pool_mib}M\n" in text


def test_mig_instances_are_types_of_their_own() -> None:
    """One GPU in two instances, one whole: each instance is one GRES of several device files (gres.conf(5): MultipleFiles)."""
    cluster = lab("debian-13")
    instance = {"type": "h100_3g.40gb", "gpu": 0}
    gres = [{**instance, "instance": 0}, {**instance, "instance": 1}, {"type": "h100", "gpu": 1, "instance": None}]
    cluster["cluster"]["scheduler"]["nodes"][0] |= {"gpus": 3, "gpu_type": None, "gres": gres}
    slurm = rendered(cluster, "slurm_controller", "etc/slurm/slurm.conf")
    assert "CPUs=8 RealMemory=2048 Gres=gpu:h100:1,gpu:h100_3g.40gb:2 State=UNKNOWN" in slurm
    assert "RealMemory=2048 Gres=gpu:h100:8 State=UNKNOWN" in slurm
    assert "\nAccountingStorageTRES=gres/gpu,gres/gpu:h100,gres/gpu:h100_3g.40gb\n" in slurm
    assert rendered(cluster, "slurm_controller", "etc/slurm/gres.conf").splitlines()[1:] == [
        *(
            f"NodeName=worker0 Name=gpu Type=h100_3g.40gb "
            f"MultipleFiles=/dev/nvidia0,/run/rackwright/mig/gpu-instance0-{one},/run/rackwright/mig/compute-instance0-{one}"
            for one in (0, 1)
        ),
        "NodeName=worker0 Name=gpu Type=h100 File=/dev/nvidia1",
        "NodeName=worker1 Name=gpu Type=h100 File=/dev/nvidia[0-7]",
    ]


def test_gpus_of_several_models_are_types_with_their_device_files() -> None:
    """The models are where the stack file has them, in any order (slurm.conf(5): Gres; gres.conf(5): Type, File)."""
    cluster = lab("debian-13")
    gres = [{"type": type_, "gpu": gpu, "instance": None} for gpu, type_ in enumerate(("a100-pcie", "t4", "a100-pcie"))]
    cluster["cluster"]["scheduler"]["nodes"][0] |= {"gpus": 3, "gpu_type": None, "gres": gres}
    slurm = rendered(cluster, "slurm_controller", "etc/slurm/slurm.conf")
    assert "CPUs=8 RealMemory=2048 Gres=gpu:a100-pcie:2,gpu:t4:1 State=UNKNOWN" in slurm
    assert "\nAccountingStorageTRES=gres/gpu,gres/gpu:a100-pcie,gres/gpu:t4\n" in slurm
    assert rendered(cluster, "slurm_controller", "etc/slurm/gres.conf").splitlines()[1:] == [
        "NodeName=worker0 Name=gpu Type=a100-pcie File=/dev/nvidia0",
        "NodeName=worker0 Name=gpu Type=t4 File=/dev/nvidia1",
        "NodeName=worker0 Name=gpu Type=a100-pcie File=/dev/nvidia2",
        "NodeName=worker1 Name=gpu Type=h100 File=/dev/nvidia[0-7]",
    ]


def test_a_power_request_is_one_file_per_node_and_replaces_the_opposite_one(tmp_path: Path) -> None:
    """The interface to the system that runs the machines."""
    program = rendered(CLUSTERS["lab-power-saving"], "slurm_controller", "usr/local/libexec/rackwright/slurm-power")
    stand_in = "#!/bin/sh\n[ \"$*\" = 'show hostnames worker[0-1]' ] && echo worker0 && echo worker1\n"
    for name, text in (("slurm-suspend", program), ("slurm-resume", program), ("scontrol", stand_in)):
        (tmp_path / name).write_text(text.replace("/var/lib/rackwright/power", str(tmp_path)))
        (tmp_path / name).chmod(0o755)
    (tmp_path / "suspend").mkdir()
    (tmp_path / "resume").mkdir()

    def asked(program: str) -> tuple[list[str], list[str]]:
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
        subprocess.run([str(tmp_path / program), "worker[0-1]"], check=True, env=environment)
        return sorted(os.listdir(tmp_path / "suspend")), sorted(os.listdir(tmp_path / "resume"))

    assert asked("slurm-suspend") == (["worker0", "worker1"], [])
    assert asked("slurm-resume") == ([], ["worker0", "worker1"])


@pytest.mark.parametrize("role", [role.name for role in [ROOT / "roles/munge", *slurm_roles()]])
def test_specs_and_defaults_name_the_same_variables(role: str) -> None:
    """A variable without a specification is not documented, one without a default fails at the first run."""
    specs = load_yaml((ROOT / "roles" / role / "meta/argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    defaults = load_yaml((ROOT / "roles" / role / "defaults/main.yml").read_text())
    assert set(specs) == set(defaults)
    assert {name: spec.get("default") for name, spec in specs.items()} == defaults


@pytest.mark.parametrize("role", [role.name for role in [ROOT / "roles/munge", *slurm_roles()]])
def test_readme_names_every_variable(role: str) -> None:
    readme = (ROOT / "roles" / role / "README.md").read_text()
    defaults = load_yaml((ROOT / "roles" / role / "defaults/main.yml").read_text())
    assert [name for name in defaults if f"| `{name}` |" not in readme] == []


@pytest.mark.parametrize(
    ("count", "given", "line"),
    [
        (8, {}, "NodeName=worker0 Name=gpu Type=mi300x File=/dev/dri/renderD[128-135] Flags=amd_gpu_env"),
        (1, {}, "NodeName=worker0 Name=gpu Type=mi300x File=/dev/dri/renderD128 Flags=amd_gpu_env"),
        (
            8,
            {"slurm_controller_gres_autodetect": "nvml"},
            "NodeName=worker0 Name=gpu Type=mi300x File=/dev/dri/renderD[128-135] Flags=amd_gpu_env AutoDetect=off",
        ),
    ],
    ids=["eight", "one", "beside-autodetection"],
)
def test_gpus_of_amd_are_render_nodes(count: int, given: dict[str, Any], line: str) -> None:
    """gres.conf(5), Flags: without the flag, Slurm sets the variables of all vendors."""
    cluster = lab("debian-13")
    cluster["cluster"]["scheduler"]["nodes"][0] |= {"gpus": count, "gpu_type": "mi300x", "gpu_vendor": "amd"}
    lines = rendered(cluster, "slurm_controller", "etc/slurm/gres.conf", **given).splitlines()
    assert lines[-2:] == [line, "NodeName=worker1 Name=gpu Type=h100 File=/dev/nvidia[0-7]"]
