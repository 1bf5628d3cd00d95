"""Print the tables of docs/software.md from the compatibility catalogue; a test compares the page with them.

usage: PYTHONPATH=tools python -m catalog.software
"""

from __future__ import annotations

from rackwright.catalog.compatibility import architectures, branches, profiles, systems

COMPONENTS = ("driver", "cuda", "cudnn", "nccl", "nccl-tests", "dcgm", "container-toolkit", "doca-ofed", "efa-installer", "enroot", "pyxis")


def tables() -> str:
    """Return the tables: profiles with their versions, driver branches, architectures, systems."""
    return "\n".join((_profiles(), _branches(), _architectures(), _systems()))


def _profiles() -> str:
    known = profiles().values()
    rows = [("profile", *(f"`{profile.name}`" for profile in known)), ("---",) * (len(known) + 1)]
    rows.append(("for", *(profile.purpose for profile in known)))
    rows.append(("systems", *(", ".join(profile.systems) for profile in known)))
    rows.append(
        ("driver packaged by", *({"nvidia": "NVIDIA", "canonical": "Canonical", "debian": "Debian"}[one.driver_vendor] for one in known))
    )
    rows += [(component, *(profile.versions.get(component, "none") for profile in known)) for component in COMPONENTS]
    return _table(rows)


def _branches() -> str:
    rows: list[tuple[str, ...]] = [("driver branch", "kind", "support ends", "CUDA up to"), ("---",) * 4]
    for branch in branches().values():
        rows.append((str(branch.number), branch.kind, f"{branch.ends:%B %Y}" if branch.ends else "has ended", f"{branch.cuda}.x"))
    return _table(rows)


def _architectures() -> str:
    rows: list[tuple[str, ...]] = [("GPUs", "kernel modules", "first driver branch", "last driver branch", "CUDA"), ("---",) * 5]
    for one in architectures().values():
        cuda = f"{one.cuda_first} to {one.cuda_last}" if one.cuda_last else f"{one.cuda_first} or later"
        rows.append((one.name.capitalize(), " or ".join(one.modules), str(one.driver_first), str(one.driver_last or "none so far"), cuda))
    return _table(rows)


def _systems() -> str:
    rows: list[tuple[str, ...]] = [("system", "kernel as first shipped", "its Slurm"), ("---",) * 3]
    rows += [(one.name, one.kernel, one.slurm or "not seen") for one in systems().values()]
    return _table(rows)


def _table(rows: list[tuple[str, ...]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    print(tables(), end="")
