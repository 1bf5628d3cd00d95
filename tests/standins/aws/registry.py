"""Every resource type of the stand-in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from standins.aws import kinds_capacity, kinds_compute, kinds_firewall, kinds_identity, kinds_network, kinds_spending, kinds_storage
from standins.aws.kind import ResourceType

_SUBJECTS: Final = (kinds_network, kinds_firewall, kinds_compute, kinds_capacity, kinds_storage, kinds_identity, kinds_spending)
KINDS: Final[Mapping[str, ResourceType]] = {token: kind for subject in _SUBJECTS for token, kind in subject.KINDS.items()}
