"""The fabric in the plan: the dimensions from which every cable follows. Cables are computed on demand."""

from __future__ import annotations

from rackwright.catalog.switches import links_worth
from rackwright.model.base import ConfigModel
from rackwright.model.fabric.switches import DpuMode, FabricKind, FabricTopology


class FloorPlan(ConfigModel):
    """Locations of racks."""

    places: dict[str, tuple[int, int]]
    """Rack -> its row, and its number in the row."""
    switch_racks: tuple[str, ...]
    rack_width_cm: int
    row_pitch_cm: int


class ManagementPlan(ConfigModel):
    """The network of the nodes' own ports and of their management controllers."""

    switch: str
    ports: int
    speed: str
    rack_units: int
    bmc: bool


class Dpu(ConfigModel):
    """BlueField cards of one group's nodes."""

    group: str
    model: str
    count: int
    mode: DpuMode
    slot: str | None


class PodsPlan(ConfigModel):
    """The third level: pods of leaves and spines below cores."""

    number: int
    """Number of pods of the layout."""
    units: int
    """Scalable units of a pod."""
    cores: int
    """Cores above the spines of one number."""
    uplinks: int
    """Cables from a spine to its cores, distributed over them."""

    def links(self, core: int) -> range:
        """Return the uplinks of a spine that lead to a core, counted from 0.

        >>> PodsPlan(number=5, units=4, cores=3, uplinks=32).links(2)
        range(22, 32)
        """
        each, more = divmod(self.uplinks, self.cores)
        first = core * each + min(core, more)
        return range(first, first + each + (core < more))


class FabricPlan(ConfigModel):
    """A fabric of two or three levels, laid out for `nodes` nodes, existing or future."""

    kind: FabricKind
    topology: FabricTopology
    switch: str
    """A row of the switch catalogue."""
    ports: int
    """Number of ports of each switch."""
    split: int = 1
    """HCAs of one port of a leaf, by a splitter cable."""
    speed: str
    rate: str
    """Rate of an HCA by its name: NDR200 behind splitter cables, else the speed."""
    width: str
    """Lanes of an HCA's link."""
    rate_gbps: int | float
    """Of an HCA's link."""
    switch_width: str
    """Lanes of a link between switches."""
    switch_gbps: int | float = 0
    """Of a link between switches; 0 as for HCAs."""
    link_layer: str
    rack_units: int | None
    """Height of a switch; None where no source says it."""
    line_card: str | None = None
    """Of a director switch, as 2x18: its ports are counted by line card, chip, and port of the chip."""
    manageable: int | None
    """Nodes that the subnet manager in a switch can serve; None without a source."""
    rails: int
    hcas: tuple[str, ...]
    """Device names by rail."""
    oversubscription: int | float
    """As declared; `links` may be better than declared."""
    nodes: int
    """Number of nodes of the layout."""
    places: dict[str, int]
    """Group -> the place of its first node; the others follow by their index."""
    per_unit: int
    """Number of places in a scalable unit."""
    units: int
    """Number of scalable units of the layout."""
    spines: int
    """Of the fabric, or of each pod."""
    links: int
    """Parallel cables between a leaf and a spine."""
    pods: PodsPlan | None = None
    """None if the fabric has two levels."""
    subnet_manager: str | None
    """The node that manages the subnet; None where the switches do."""
    spare: int
    """Ports of every leaf reserved for devices other than nodes: one, where the subnet manager has an HCA of its own."""
    simulated: bool
    floor: FloorPlan | None = None
    management: ManagementPlan | None = None
    dpus: tuple[Dpu, ...] = ()
    nvlink_domain: int | None = None
    """Nodes with shared NVLink, more than one."""
    domains: dict[str, int] = {}
    """Group with GPUs -> the first of its NVLink domains, from 0; the others follow by its nodes' index."""
    named: bool = False
    """Whether the stack names the HCAs: then nodes have other HCAs, too, which NCCL must not use."""

    def rails_of(self, node: str, group: str) -> tuple[str, ...]:
        """Return the device names of a node's HCAs on the fabric."""
        if group in self.places:
            return self.hcas
        return self.hcas[:1] if node == self.subnet_manager else ()

    @property
    def server(self) -> str | None:
        """Return the node that runs the simulation, or None for a real fabric."""
        return self.subnet_manager if self.simulated else None

    @property
    def leaves_per_unit(self) -> int:
        """Return the leaves of a unit: one for each rail, or one for all HCAs of a few nodes."""
        return self.rails if self.topology is FabricTopology.RAIL_OPTIMISED else 1

    @property
    def downlinks(self) -> int:
        """Return the number of leaf ports for nodes' HCAs."""
        return self.per_unit * self.rails // self.leaves_per_unit

    @property
    def uplinks(self) -> int:
        """Return the number of leaf ports to spines."""
        return self.spines * self.links

    @property
    def upward(self) -> int:
        """Links' worth of HCAs that a leaf's uplinks carry."""
        return self.uplinks * (links_worth(self.switch_gbps, self.rate_gbps) if self.switch_gbps else self.split)

    @property
    def hca_rate(self) -> str:
        """Return width and speed of an HCA's link as `ibnetdiscover -p` prints them: a split port has its speed on fewer lanes."""
        return f"{self.width} {self.speed if self.split > 1 else self.rate}"

    @property
    def all_spines(self) -> int:
        """Return the number of spines of all pods."""
        return self.spines * (self.pods.number if self.pods else 1)

    @property
    def cores(self) -> int:
        """Return the number of switches of the third level."""
        return self.spines * self.pods.cores if self.pods else 0

    def pod_of(self, unit: int) -> int:
        """Return the pod of a scalable unit, counted from 0."""
        return unit // self.pods.units if self.pods else 0

    def leaf_port(self, number: int) -> int:
        """Return the InfiniBand port number of a leaf's port that is not split, counted from 1.

        If ports can be split, each has two numbers: 5 and 6 are halves of the third, and 5 is the third where it is whole. Seen in public
        outputs of ibnetdiscover: a QM9700 with 129 ports, a QM8700 with 81, whose last whole port is 79 (treydock/infiniband_exporter).
        """
        return (number - 1) * self.split + 1
