"""Where BMCs of vendors differ, each with its source. A profile holds what a client of power control meets, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Profile:
    """One vendor's BMC."""

    vendor: str
    systems: tuple[str, ...]
    """Ids of the members of Systems; the first one is the machine."""
    reset_types: tuple[str, ...]
    announced: str
    """Where the reset types stand: `action` (ResetType@Redfish.AllowableValues), `action-info`, or `nowhere`."""
    reset_status: int = 204
    already_status: int = 0
    """Status of a request for the state that the machine has; 0: accepted."""
    already_message: str = ""
    location: str = "relative"
    """Form of a session's Location: `relative` or `absolute`, with a name that the client cannot resolve."""
    etag: str = ""
    transitions: bool = False
    """Whether PowerState is PoweringOn and PoweringOff once, between Off and On."""
    basic: bool = True


IDRAC: Final = Profile(
    vendor="Dell iDRAC 9",
    systems=("System.Embedded.1",),
    # No GracefulRestart on some releases: quadsproject/badfish#10.
    reset_types=("On", "ForceOff", "ForceRestart", "GracefulShutdown", "PushPowerButton", "Nmi", "PowerCycle"),
    announced="action",
    # HTTP 409, IDRAC.1.6.PSU501: dell/dellemc-openmanage-ansible-modules#132.
    already_status=409,
    already_message="IDRAC.1.6.PSU501: Server is already powered ON.",
)
ILO: Final = Profile(
    vendor="HPE iLO 6",
    systems=("1",),
    # servermanagementportal.ext.hpe.com, ComputerSystem resource definitions of iLO 6
    reset_types=("On", "ForceOff", "GracefulShutdown", "PushPowerButton", "ForceOn", "ForceRestart", "Nmi", "PowerCycle"),
    announced="action",
    reset_status=200,
    # HTTP 400 and a weak ETag: goldyfruit/ansible-ilo#1.
    already_status=400,
    already_message="iLO.0.10.InvalidOperationForSystemState",
    etag='W/"586ADDC4"',
    location="absolute",
)
SUPERMICRO: Final = Profile(
    vendor="Supermicro",
    systems=("1",),
    # gist.github.com/flaviotorres/6e09c16d46ca2a79b131650c6b8c4e7f: an answer of Systems/1
    reset_types=("On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "Nmi", "ForceOn"),
    announced="action",
    reset_status=200,
)
OPENBMC: Final = Profile(
    vendor="OpenBMC",
    systems=("system",),
    reset_types=("On", "ForceOff", "ForceOn", "ForceRestart", "GracefulRestart", "GracefulShutdown", "PowerCycle", "Nmi"),
    # openbmc/bmcweb#266: @Redfish.ActionInfo alone.
    announced="action-info",
    transitions=True,
)
XCC: Final = Profile(
    vendor="Lenovo XCC 2",
    systems=("1",),
    # pubs.lenovo.com/xcc2-restapi/server_reset_operations_post
    reset_types=("On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "Nmi", "ForceOn"),
    announced="action",
    # docs.rs/crate/libredfish: src/model/testdata/system_lenovo.json, a strong ETag
    etag='"2cc0d5d1eab092f061683c"',
    reset_status=200,
)
DGX: Final = Profile(
    vendor="NVIDIA DGX (AMI MegaRAC)",
    # docs.nvidia.com, DPS, Redfish API: /redfish/v1/Systems/HGX_Baseboard_0 beside the machine's own system.
    systems=("DGX", "HGX_Baseboard_0"),
    reset_types=("On", "ForceOff", "GracefulShutdown", "ForceRestart"),
    announced="action-info",
    # AMI's firmware answers with a task: pubs.lenovo.com/tsm/post_systems_instance (HTTP 202).
    reset_status=202,
    location="absolute",
)
PROFILES: Final = {"idrac": IDRAC, "ilo": ILO, "supermicro": SUPERMICRO, "openbmc": OPENBMC, "xcc": XCC, "dgx": DGX}
