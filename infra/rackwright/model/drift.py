"""What may differ from what is declared, for a reason and until a day."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from rackwright.model.base import Part
from rackwright.model.policy import Change
from rackwright.model.units import Day

MailAddress = Annotated[str, Field(pattern=r"^[^@\s,<>]+@[^@\s,<>]+$")]


class Allowed(Part):
    """A difference that `rackwright drift` is to expect."""

    subject: Annotated[str, Change.RUN] = Field(
        min_length=1, description="As `rackwright drift` prints it, like slurm.node_takes_jobs; `*` stands for anything."
    )
    node: Annotated[str, Change.RUN] = Field(default="*", min_length=1, description="A node's name, or a pattern of names.")
    reason: Annotated[str, Change.RUN] = Field(min_length=5, description="Why, for who reads it in a year.")
    until: Annotated[Day, Change.RUN] = Field(description="The last day; after it the entry itself is a difference.")


class Mail(Part):
    """Who is written to, through which server."""

    to: Annotated[tuple[MailAddress, ...], Change.RUN] = Field(min_length=1, description="Who is written to.")
    sender: Annotated[MailAddress | None, Change.RUN] = Field(default=None, description="As whom; the first of `to` where it is left out.")
    server: Annotated[str, Change.RUN] = Field(
        default="localhost",
        pattern=r"^[A-Za-z0-9.-]+(:[0-9]+)?$",
        description="The mail server, which takes mail without a password: host or host:port.",
    )


class Notify(Part):
    """Who is told when a look comes to something else than the one before."""

    mail: Annotated[Mail | None, Change.RUN] = Field(default=None, description="By mail.")
    webhook_file: Annotated[str | None, Change.RUN] = Field(
        default=None, pattern=r"^/", description="A file that holds the address of a webhook, which takes JSON with a `text`."
    )
    command: Annotated[tuple[str, ...], Change.RUN] = Field(
        default=(), description="A program and its words; it gets the message on its input."
    )


class DriftPolicy(Part):
    """How `rackwright drift` weighs what it finds, and who is told."""

    allow: Annotated[tuple[Allowed, ...], Change.RUN] = Field(default=(), description="Differences that are expected for a while.")
    notify: Annotated[Notify, Change.RUN] = Field(default=Notify(), description="Who is told when a look comes to something else.")
    metrics_folder: Annotated[str | None, Change.RUN] = Field(
        default=None,
        pattern=r"^/",
        description="Folder that node_exporter's textfile collector reads on the machine that looks; `rackwright-<stack>.prom` goes there.",
    )
    traces: Annotated[bool, Change.RUN] = Field(
        default=True,
        description="Compare what nodes have with when all was well: accounts, keys, files under /etc, packages, units, sockets.",
    )
