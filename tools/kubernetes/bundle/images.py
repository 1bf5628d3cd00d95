"""Which files each image holds, and under which name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bundle import inputs, layer, packet_filter, recipe
from bundle.archive import Content
from bundle.recipe import Image


def names(rooms: Path, by_kubeadm: Mapping[str, str]) -> dict[str, str]:
    """The full names of all images: kubeadm's, and ours by the digest of their sources."""
    own = {each.name: f"{recipe.OWN_REPOSITORY}/{each.name}:{inputs.own_version(rooms, each.name)}" for each in recipe.IMAGES if each.own}
    return {**by_kubeadm, **own}


def contents(archive: str, called: Mapping[str, str], programs: Mapping[str, Path], filters: Path) -> list[Content]:
    """The images of one archive, sorted by name."""
    found = [_content(image, called[image.name], programs, filters) for image in recipe.IMAGES if image.archive == archive]
    return sorted(found, key=lambda each: each.name)


def _content(image: Image, name: str, programs: Mapping[str, Path], filters: Path) -> Content:
    files = [layer.program(image.folder + each, programs[each], image.binds_low_ports) for each in image.programs]
    below = packet_filter.entries(filters) if image.filters_packets else []
    return Content(name, (*below, *layer.base(), *files), image.folder + image.programs[0], image.user)
