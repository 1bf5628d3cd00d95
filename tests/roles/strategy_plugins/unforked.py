"""The linear strategy without a process for each task of each host: imports and compiled templates serve the next task too."""

from __future__ import annotations

import copy
import sys

from ansible._internal import _task
from ansible.executor.process.worker import WorkerProcess
from ansible.executor.task_executor import TaskExecutor
from ansible.executor.task_result import _RawTaskResult
from ansible.plugins.loader import lookup_loader
from ansible.plugins.strategy.linear import StrategyModule as Linear


def run_task(worker: WorkerProcess) -> None:
    """Run the worker's task in this process and queue its result, as its own process would.

    The executor resolves the task's templates in place, so it is given a copy: the next host needs them unresolved.
    """
    task = worker._task.copy(exclude_parent=True, exclude_tasks=True)
    task._parent = worker._task._parent
    with _task.TaskContext(task):
        done = TaskExecutor(
            worker._host,
            task,
            worker._task_vars,
            worker._play_context,
            worker._loader,
            worker._shared_loader_obj,
            worker._final_q,
            worker._variable_manager,
        ).run()
    host = copy.copy(worker._host)
    host.vars, host.groups = {}, []
    worker._final_q.send_task_result(_RawTaskResult(host=host, task=task, return_data=done, task_fields=task.dump_attrs()))


class StrategyModule(Linear):  # type: ignore[misc]
    """Linear, with workers that run their task where they are started."""

    def run(self, *words: object, **named: object) -> object:
        """Run the play.

        The look-up of templates copies all variables of a host for each template, deeply. No template here changes them, and a copy of
        the mapping alone keeps what the look-up adds out of them.
        """
        WorkerProcess.start = run_task
        sys.modules[lookup_loader.get("ansible.builtin.template", class_only=True).__module__].deepcopy = copy.copy
        return super().run(*words, **named)
