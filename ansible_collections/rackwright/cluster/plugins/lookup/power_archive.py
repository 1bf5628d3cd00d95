"""Path of the archive with the program that switches machines through their BMCs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible.plugins.lookup import LookupBase

from rackwright.drivers.bmc.archive import write_power_archive
from rackwright.inventory import paths

DOCUMENTATION = """
name: power_archive
short_description: path of the archive that switches machines through their BMCs
description:
  - Writes the archive into the cache of the user, unless it is there, and returns its path on the control machine.
options: {}
"""


class LookupModule(LookupBase):  # type: ignore[misc]
    """The lookup `lookup('rackwright.cluster.power_archive')`."""

    def run(self, terms: Sequence[str], variables: Mapping[str, Any] | None = None, **_: Any) -> list[str]:
        """Return the path."""
        return [str(write_power_archive(paths.program_archives()))]
