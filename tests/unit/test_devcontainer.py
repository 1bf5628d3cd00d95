"""The development container agrees with the bootstrap. Whether it starts is not tested."""

from __future__ import annotations

import json
import re
from pathlib import Path

from bootstrap.packages import LAB, PYTHON, UBUNTU_KEYRING

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".devcontainer"


def read(name):
    return (FOLDER / name).read_text(encoding="utf-8")


def installed_packages():
    (command,) = re.findall(r"apt-get install --yes --no-install-recommends \\\n(.*?)\n &&", read("Containerfile"), re.DOTALL)
    return set(command.replace("\\", "").split())


def test_image_has_the_packages_of_the_bootstrap():
    wanted = {need.apt for need in (*LAB, PYTHON, UBUNTU_KEYRING)}
    assert wanted
    assert wanted - installed_packages() == set()


def test_image_has_what_the_readme_asks_for():
    assert {"git", "make", "python3"} <= installed_packages()


def test_settings_name_files_and_targets_that_exist():
    settings = json.loads(read("devcontainer.json"))
    assert (FOLDER / settings["build"]["dockerfile"]).is_file()
    target = settings["postCreateCommand"].removeprefix("make ")
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def test_published_port_is_that_of_the_default_stack():
    port = re.search(r"access: \{port: (\d+)", (ROOT / "stacks/Pulumi.lab.yaml").read_text(encoding="utf-8"))
    assert json.loads(read("devcontainer.json"))["forwardPorts"] == [int(port[1])]


def test_the_page_says_that_it_is_not_tested():
    assert "**Not tested.**" in read("README.md")
