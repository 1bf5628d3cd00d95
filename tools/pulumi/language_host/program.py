"""The runner: one run of the user's Pulumi program, in a separate process."""

from __future__ import annotations

import asyncio
import json
import os
import runpy
import sys
import traceback
from pathlib import Path
from typing import NoReturn

import pulumi
from pulumi.runtime import Settings, configure, run_in_stack, set_all_config

from language_host.order import SHOWN, Order


def run(order: Order, engine: str) -> NoReturn:
    """Run the program and exit: 0 success, 32 an error was printed."""
    code = SHOWN
    try:
        _prepare(order, engine)
        code = _execute(order)
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def _prepare(order: Order, engine: str) -> None:
    """Set up what the SDK and the program expect."""
    os.environ["PULUMI_CONFIG"] = json.dumps(order.config)
    os.environ["PULUMI_CONFIG_SECRET_KEYS"] = json.dumps(order.secret_keys)
    set_all_config(order.config, order.secret_keys)
    configure(
        Settings(
            project=order.project,
            stack=order.stack,
            monitor=order.monitor,
            engine=engine,
            parallel=order.parallel,
            dry_run=order.dry_run,
            organization=order.organization,
            root_directory=order.root,
        )
    )
    os.chdir(order.directory)
    sys.argv = [order.entry, *order.args]
    sys.path[0] = str(Path(order.entry).parent)


def _execute(order: Order) -> int:
    """Run the program on an event loop of its own; print its exception."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(run_in_stack(lambda: _program(order.entry)))
    except pulumi.RunError as error:
        pulumi.log.error(str(error))
        return SHOWN
    except SystemExit as leaving:
        return _exit_code(leaving)
    except BaseException as error:
        pulumi.log.error("Program failed with an unhandled exception:\n" + _program_traceback(error, order))
        return SHOWN
    return 0


def _program(entry: str) -> None:
    runpy.run_path(entry, run_name="__main__")


def _exit_code(leaving: SystemExit) -> int:
    if leaving.code is None or isinstance(leaving.code, int):
        return leaving.code or 0
    pulumi.log.error(str(leaving.code))
    return SHOWN


def _program_traceback(error: BaseException, order: Order) -> str:
    """Return the traceback without the frames of this host and of runpy before the program's own."""
    formatted = traceback.TracebackException.from_exception(error)
    root = order.root or str(Path(order.entry).parent)
    first = next((i for i, frame in enumerate(formatted.stack) if frame.filename.startswith(root) and frame.filename != __file__), None)
    if first is not None:
        del formatted.stack[:first]
    return "".join(formatted.format())
