"""Names and paths with a fixed format: labels, domains, partitions, features, users, racks, mount points, playbooks, RDMA devices."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import BeforeValidator

from rackwright.model.notation import text_schema, word

_LABEL: Final = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_DOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_PARTITION: Final = r"[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?"
"""slurm.conf(5) sets no format. Sites use capitals and underscores (`gpu-a100_long`); a comma separates names, a dot parts of a path."""
_FEATURE: Final = r"[A-Za-z0-9_][A-Za-z0-9_.:-]*"
"""In a constraint, `&`, `|`, `*` and brackets are operators (sbatch(1), --constraint); a comma separates features in slurm.conf(5)."""
_USER: Final = r"[a-z_][-a-z0-9_]*"
_PLAYBOOK: Final = r"([A-Za-z0-9_][A-Za-z0-9_.-]*/)+[A-Za-z0-9_][A-Za-z0-9_.-]*\.ya?ml"
_MOUNT: Final = r"/[^\s:,]*"
_RDMA_DEVICE: Final = r"[A-Za-z][A-Za-z0-9_.-]*"
"""Names that rdma-core's udev rules and drivers give: mlx5_0, ibp12s0, roceP2p1s0f0, rdmap0s6 (rdma-core: kernel-boot/rdma_rename.c).

`:`, `,`, `=` and `^` separate names in NCCL_IB_HCA, and `/` is no part of a file name in /sys/class/infiniband.
"""
_RDMA_DEVICE_LENGTH: Final = 63
"""IB_DEVICE_NAME_MAX is 64 with the final NUL (Linux: include/uapi/rdma/ib_user_verbs.h). A netdev's IFNAMSIZ does not apply."""
_RACK: Final = r"[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?"
"""No dot: the management switches of a rack are numbered after one."""


def is_label(text: str) -> bool:
    """Return whether the text can be a host name: lower-case letters, digits and inner hyphens, a letter first, at most 63."""
    return len(text) <= 63 and re.fullmatch(_LABEL, text) is not None


_LABEL_HINT = "use lower-case letters, digits and inner hyphens, starting with a letter"
Label = Annotated[str, BeforeValidator(word("label", _LABEL, 63, "a DNS label", _LABEL_HINT)), text_schema(_LABEL, maxLength=63)]
Domain = Annotated[
    str,
    BeforeValidator(word("domain", _DOMAIN, 200, "a domain name", "use DNS labels joined by dots, like lab.internal")),
    text_schema(_DOMAIN),
]
PartitionName = Annotated[
    str,
    BeforeValidator(
        word(
            "partition-name",
            _PARTITION,
            63,
            "a name of a partition",
            "use letters, digits and inner - and _, starting with a letter or digit",
        )
    ),
    text_schema(_PARTITION, maxLength=63),
]
Feature = Annotated[
    str,
    BeforeValidator(
        word("feature", _FEATURE, 63, "a name of a feature", "use letters, digits, _, ., : and -, starting with a letter, digit or _")
    ),
    text_schema(_FEATURE, maxLength=63),
]
UserName = Annotated[
    str,
    BeforeValidator(word("user-name", _USER, 32, "a user name", "use lower-case letters, digits, - and _, starting with a letter or _")),
    text_schema(_USER),
]
MountPoint = Annotated[
    str, BeforeValidator(word("mount", _MOUNT, 200, "a mount point", "use an absolute path, like /mnt/sharedfs")), text_schema(_MOUNT)
]
Playbook = Annotated[
    str,
    BeforeValidator(
        word("playbook", _PLAYBOOK, 200, "a playbook of the project", "use a path relative to the project's root, like site/monitoring.yml")
    ),
    text_schema(_PLAYBOOK),
]
RdmaDevice = Annotated[
    str,
    BeforeValidator(
        word(
            "rdma-device",
            _RDMA_DEVICE,
            _RDMA_DEVICE_LENGTH,
            "a name of an RDMA device",
            "enter the name that `rdma link` or `ls /sys/class/infiniband` prints on the node, like mlx5_0 or roceP2p1s0f0",
        )
    ),
    text_schema(_RDMA_DEVICE, maxLength=_RDMA_DEVICE_LENGTH),
]
Rack = Annotated[
    str,
    BeforeValidator(word("rack", _RACK, 63, "the name of a rack", 'use letters, digits and inner - and _, like r01, A-12 or "12"')),
    text_schema(_RACK, maxLength=63),
]
