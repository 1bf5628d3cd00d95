"""Kubernetes add-ons for users' jobs: source and allocated resources."""

from __future__ import annotations

from collections.abc import Iterator

from rackwright.catalog.addons import addons
from rackwright.model.groups import Role
from rackwright.model.scheduler.kubernetes import BUNDLED_IMAGE, Addon, Source
from rackwright.rules.registry import RuleContext, Violation, rule


@rule("addon-source")
def addon_source(case: RuleContext) -> Iterator[Violation]:
    """The bundle builds images and objects of add-ons from pinned modules; those of a registry may differ."""
    declared = case.kubernetes
    if declared is None or not declared.addons:
        return
    if declared.install_from is Source.PACKAGES or (declared.install_from is Source.AUTO and not case.cluster.target.publishes_ports):
        cause = f"{', '.join(declared.addons)} come from the bundle, but this stack installs Kubernetes from the vendor's packages"
        yield Violation("scheduler.addons", cause, "use `install_from: bundle`, or install the add-ons by hand and remove the list")


@rule("training-image-source")
def training_image_source(case: RuleContext) -> Iterator[Violation]:
    """Only the bundle contains the image; a cluster from the vendor's packages has no bundle."""
    declared = case.kubernetes
    if declared is None or declared.training_image != BUNDLED_IMAGE:
        return
    if declared.install_from is Source.PACKAGES or (declared.install_from is Source.AUTO and not case.cluster.target.publishes_ports):
        cause = "the image is a part of the bundle, but this stack installs Kubernetes from the vendor's packages"
        yield Violation("scheduler.training_image", cause, "use `install_from: bundle`, or name an image with PyTorch")


@rule("addon-kueue-gpus")
def addon_kueue_gpus(case: RuleContext) -> Iterator[Violation]:
    """Kueue's queues distribute GPUs; without GPUs, no queue can be created."""
    if case.kubernetes is not None and Addon.KUEUE in case.kubernetes.addons and not any(one.gpus for one in case.with_role(Role.WORKER)):
        yield Violation(
            "scheduler.addons", "kueue allocates GPUs, but no worker has any", "add `gpus` to a group of workers, or remove kueue"
        )


@rule("addon-kueue-namespaces")
def addon_kueue_namespaces(case: RuleContext) -> Iterator[Violation]:
    """A queue belongs to a namespace."""
    if case.kubernetes is not None and Addon.KUEUE in case.kubernetes.addons and not case.kubernetes.namespaces:
        cause = "kueue creates a queue for each namespace, but no namespace is declared"
        yield Violation(
            "scheduler.namespaces", cause, "declare the namespaces whose jobs are queued, or remove kueue from scheduler.addons"
        )


@rule("addon-trainer-jobset")
def addon_trainer_jobset(case: RuleContext) -> Iterator[Violation]:
    """Kubeflow Trainer runs each TrainJob as a JobSet."""
    listed = case.kubernetes.addons if case.kubernetes else ()
    if Addon.TRAINER in listed and Addon.JOBSET not in listed:
        yield Violation(
            "scheduler.addons", "trainer creates a JobSet for each TrainJob, but jobset is not listed", "add jobset to the list"
        )


@rule("addon-namespace")
def addon_namespace(case: RuleContext) -> Iterator[Violation]:
    """Users of the add-on's namespace could control the add-on."""
    for name in case.kubernetes.addons if case.kubernetes else ():
        installed = addons()[name].installed
        if installed is not None and case.kubernetes is not None and installed.namespace in case.kubernetes.namespaces:
            path = f"scheduler.namespaces.{installed.namespace}"
            yield Violation(path, f"{name} runs in the namespace {installed.namespace}", "rename the users' namespace")


@rule("duplicate-addon")
def duplicate_addon(case: RuleContext) -> Iterator[Violation]:
    """A repeated entry may be a typing error for another add-on."""
    listed = case.kubernetes.addons if case.kubernetes else ()
    for name in sorted({name for name in listed if listed.count(name) > 1}):
        yield Violation("scheduler.addons", f"`{name}` is listed {listed.count(name)} times", "list it once")
