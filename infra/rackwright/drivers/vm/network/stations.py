"""Stations: the port behind which a MAC address is, planned or learned from frames. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from rackwright.drivers.vm.network.frames import is_group
from rackwright.drivers.vm.network.links import Port

AGEING_SECONDS: Final = 300.0
"""Seconds after which a learned address is unknown again (IEEE 802.1Q-2022, 8.8.3: recommended value)."""
MAX_LEARNED: Final = 4096
"""Learned addresses per network. Chosen: more than the machines and containers of a lab; a machine that invents addresses is bounded."""


class Stations:
    """MAC addresses by network. A planned address stays at its port, whichever machine sends with it."""

    def __init__(self, networks: Mapping[str, str], planned: Mapping[bytes, Port]) -> None:
        self._networks = networks
        self._planned = {(networks[port.switch], mac): port for mac, port in planned.items()}
        self._learned: dict[str, dict[bytes, tuple[Port, float]]] = {network: {} for network in set(networks.values())}

    def learn(self, mac: bytes, port: Port, now: float) -> None:
        """Remember from which port a frame with this source came."""
        network = self._networks[port.switch]
        if (network, mac) in self._planned or is_group(mac):
            return
        learned = self._learned[network]
        learned.pop(mac, None)
        if len(learned) >= MAX_LEARNED:
            del learned[next(iter(learned))]
        learned[mac] = (port, now)

    def find(self, mac: bytes, switch: str, now: float) -> Port | None:
        """Return the port of an address in the network of a switch, None if it is unknown."""
        network = self._networks[switch]
        if planned := self._planned.get((network, mac)):
            return planned
        port, seen = self._learned[network].get(mac, (None, 0.0))
        return port if port is not None and now - seen <= AGEING_SECONDS else None

    def adopt(self, earlier: Stations, ports: Collection[Port]) -> None:
        """Take over what was learned behind ports that still exist."""
        for learned in earlier._learned.values():
            for mac, (port, seen) in learned.items():
                if port in ports:
                    self.learn(mac, port, seen)
