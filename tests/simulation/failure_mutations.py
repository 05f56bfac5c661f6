# the texts to replace are copied from the code
"""Mistakes with tasks that failed for good and keep their place, and with tasks that end processes."""

from __future__ import annotations

from simulation.mutation import Mutation

_EXECUTION = "airflow_provider.worker.tasks"
_RUNS = "airflow_provider.worker.tasks.runs"
_LEADING = "airflow_provider.group.classic.leader"

_STARTED = "a_task_is_started_only_after_it_was_stopped_or_its_lease_was_over"
_TWO_RUN = "no_two_copies_run_at_once"
_SUSPECTED = "only_what_was_in_trouble_is_suspected"
_COMPLETE = "the_target_is_complete_and_without_duplicates"
_REST = "everything_converges"
_STAYS = "a_failed_task_stays_with_its_worker"
_ASKED = "a_failed_task_starts_only_on_request"
_NO_ROUND = "a_task_is_tried_again_without_a_round"
_HIGHER = "a_task_goes_to_another_worker_with_a_higher_epoch"
_ALONE = "nobody_fails_for_an_end_of_spark_that_may_be_due_to_others"
_FOUND = "who_ends_spark_is_found"
_PAYS = "nobody_pays_for_a_spark_that_does_not_start"

FAILURE_MUTATIONS = (
    Mutation(
        name="waits for another writer for ever",
        module=f"{_EXECUTION}.attempts",
        edits=(("replaced(run, error=why), conflict_pause_ms(run.conflicts))", "replaced(run, error=why), 2**40)"),),
        plan="failing",
        broken=(_REST,),
    ),
    Mutation(
        name="lets a task pay for another writer",
        module="airflow_provider.worker.tasks.runs.runs",
        edits=(("conflicts=self.conflicts + 1,", "conflicts=self.conflicts + 1, failures=self.failures + 1,"),),
        unit_test="tests/unit/worker/tasks/test_execution_conflicts.py",
    ),
    Mutation(
        name="forgives a stream nothing",
        module="airflow_provider.worker.tasks.runs.stream_health",
        edits=(("    if went_wrong and (", "    if False and ("),),
        unit_test="tests/unit/worker/tasks/test_execution_budgets.py",
    ),
    Mutation(
        name="lets the membership give up what it keeps a place for",
        module=f"{_EXECUTION}.attempts",
        edits=(("        x.rest(run)\n", "        x.rest(run)\n        x._finished.add(task)\n"),),
        plan="failing-troubled",
        broken=(_STARTED, _TWO_RUN, _HIGHER, _SUSPECTED),
    ),
    Mutation(
        name="does not look whether what has failed is to be tried again",
        module=f"{_EXECUTION}.machine",
        edits=(
            (
                "        looking, told = x.runs.looking, x.runs.failed | x.runs.detached\n",
                "        looking, told = x.runs.looking, x.runs.detached\n",
            ),
        ),
        plan="failing",
        broken=(_REST,),
    ),
    Mutation(
        name="gives up what is to be tried again",
        module=f"{_EXECUTION}.assigned",
        edits=(
            (
                "    if not admit(x, task, run.epoch):\n        x.release_stopped(task)\n        return\n    again",
                "    if True:\n        x.release_stopped(task)\n        return\n    again",
            ),
        ),
        plan="failing",
        broken=(_NO_ROUND,),
    ),
    Mutation(
        name="tries again what has failed though nobody wants it",
        module=f"{_EXECUTION}.attempts",
        edits=(
            (
                "_has_better_place(x, last):\n        x.close(failed, TaskState.FAILED)\n",
                "_has_better_place(x, last):\n        x.wait_for_next(failed, 0)\n",
            ),
        ),
        plan="failing",
        broken=(_ASKED,),
    ),
    Mutation(
        name="has a failed task tried where nothing is known to go well",
        module="airflow_provider.state.blame.tried_elsewhere",
        edits=(("if worker == home or not (anywhere or worker in self._able):", "if worker == home:"),),
        unit_test="tests/unit/state/blame/test_tried_elsewhere.py",
    ),
    Mutation(
        name="fails for good what fails where nothing goes well",
        module="airflow_provider.state.blame.tried_elsewhere",
        edits=(("anywhere = last.last_try and home not in self._able", "anywhere = False"),),
        unit_test="tests/unit/worker/tasks/test_execution_elsewhere.py",
    ),
    Mutation(
        name="blames a worker for a single task",
        module="airflow_provider.state.blame.evidence",
        edits=(("_CASES: Final = 2\n", "_CASES: Final = 1\n"),),
        unit_test="tests/unit/state/blame/test_tried_elsewhere.py",
    ),
    Mutation(
        name="does not hold it against a worker that its tasks go well elsewhere",
        module="airflow_provider.worker.tasks.machine",
        edits=(("    if isinstance(event, (TopicsRead, TasksGiven)):\n", "    if isinstance(event, ()):\n"),),
        unit_test="tests/unit/worker/tasks/test_execution_elsewhere.py",
    ),
    Mutation(
        name="moves a failed task back for balance",
        module="airflow_provider.assignment.balancing.pools",
        edits=(("plus(round.stays, round.tried.pinned)", "round.stays"),),
        unit_test="tests/unit/assignment/moving/test_assignor_elsewhere.py",
    ),
    Mutation(
        name="lets a failed task wait for the worker that was lost with it",
        module="airflow_provider.assignment.cooperative_assignor",
        edits=(("    difference = difference.without(goes.tasks)", "    difference"),),
        unit_test="tests/unit/assignment/moving/test_assignor_elsewhere.py",
    ),
    Mutation(
        name="starts what it is given though it has failed",
        module=f"{_EXECUTION}.admission",
        edits=(
            (
                "    x.rest(TaskRun(work=work, epoch=epoch, attempt=x.status.tasks[work.task].attempt))\n",
                "    x.runs[work.task] = TaskRun(work=work, epoch=epoch)\n",
            ),
        ),
        unit_test="tests/unit/worker/tasks/test_execution_kept.py",
    ),
    Mutation(
        name="starts what has failed by an older word about it",
        module=f"{_EXECUTION}.assigned",
        edits=((" or last.attempt <= run.attempt:", ":"),),
        unit_test="tests/unit/worker/tasks/test_execution_kept.py",
    ),
    Mutation(
        name="takes for released what its worker keeps",
        module="airflow_provider.group.live.classic.leading",
        edits=((" and not word.kept\n", "\n"),),
        unit_test="tests/unit/group/live/classic/test_leading_kept.py",
    ),
    Mutation(
        name="does not write down what workers keep",
        module=f"{_LEADING}.kept_failures",
        edits=(("    if not kept:\n        return decided\n", "    return decided\n"),),
        plan="failing",
        broken=(_COMPLETE,),
    ),
    Mutation(
        name="has workers let go of what they keep",
        module=f"{_LEADING}.leader",
        edits=(("minus(call.ended, kept.disputed)", "minus(call.ended, call.failed)"),),
        plan="failing",
        broken=(_STAYS,),
    ),
    Mutation(
        name="has two workers keep what both report",
        module=f"{_LEADING}.kept_failures",
        edits=(("if times > 1)", "if times > 2)"),),
        unit_test="tests/unit/group/classic/leader/test_leader_kept.py",
    ),
    Mutation(
        name="keeps places in a worker that is to leave when it has nothing left",
        module="airflow_provider.worker.endings.leave_request",
        edits=(("                self._hands.let_failed_go()\n", ""),),
        unit_test="tests/unit/worker/endings/test_leave_request.py::test_it_gives_up_at_once_what_has_failed_for_good",
    ),
    Mutation(
        name="gives up what has failed when the membership goes to a triggerer",
        module="airflow_provider.worker.hands.standby",
        edits=((" or (self._keeps_failed and self._has_failed(task))", ""),),
        unit_test="tests/unit/worker/test_worker_kept.py",
    ),
    Mutation(
        name="suspects nothing that ran in a lost process",
        module="airflow_provider.worker.tasks.runs.process_deaths",
        edits=(
            ("    return last.worker != worker or not is_same_process(said.process, process)\n", "    return False\n"),
        ),
        unit_test="tests/simulation/test_culprits.py",
    ),
    Mutation(
        name="suspects what was stopped in order and has not been read yet",
        module=f"{_EXECUTION}.admission",
        edits=(("    if work is None or not _seems_to_run_elsewhere(x, work, last):\n", "    if True:\n"),),
        unit_test="tests/unit/worker/tasks/test_execution_suspects.py",
    ),
    Mutation(
        name="condemns what was on trial with others",
        module=f"{_RUNS}.spark_deaths.suspects",
        edits=(("run.died_alone + 1 if alone or _wants_solitude(run) else 0", "run.died_alone + 1"),),
        unit_test="tests/unit/worker/tasks/runs/spark_deaths/test_worker_suspects.py",
    ),
    Mutation(
        name="condemns a task for what those do that ran beside it",
        module=f"{_RUNS}.spark_deaths.suspects",
        edits=(("        return not (there and _wants_solitude(run))\n", "        return True\n"),),
        unit_test="tests/unit/worker/tasks/runs/spark_deaths/test_solitude.py",
    ),
    Mutation(
        name="condemns a task for what a warm-up does",
        module=f"{_RUNS}.spark_deaths.solitude",
        edits=((" | (warming - {run.task})", ""),),
        unit_test="tests/unit/worker/tasks/runs/spark_deaths/test_solitude.py",
    ),
    Mutation(
        name="stops nothing for a task that is to be tried alone",
        module=f"{_RUNS}.spark_deaths.suspects",
        edits=((" for run in waiting), NO_TASKS, stop)", " for run in waiting), NO_TASKS)"),),
        unit_test="tests/unit/worker/tasks/runs/spark_deaths/test_solitude.py",
    ),
    Mutation(
        name="lets two that are to be tried alone stop each other for ever",
        module="airflow_provider.worker.tasks.assigned",
        edits=(("    x.keep(x.suspects.after_trial(x.runs[task], now_ms=x.now))\n", ""),),
        unit_test="tests/unit/worker/tasks/runs/spark_deaths/test_solitude.py",
    ),
    Mutation(
        name="stops what runs for a task that has no slot",
        module=f"{_RUNS}.spark_deaths.suspects",
        edits=((" and _wants_solitude(run) and _fitting([run], runs, slots))", " and _wants_solitude(run))"),),
        unit_test="tests/unit/worker/tasks/runs/spark_deaths/test_solitude.py",
    ),
    Mutation(
        name="condemns a task for its trial in an earlier run of its job",
        module=f"{_RUNS}.spark_deaths.suspects",
        edits=(("condemned = self._was_alone(run, deaths=_ALONE)", "condemned = self.condemns(run)"),),
        unit_test="tests/unit/worker/tasks/test_execution_suspects.py",
    ),
    Mutation(
        name="stops others for each retry of a task that was alone on trial at a death",
        module=f"{_RUNS}.runs",
        edits=(("            died_alone=0,\n            conflicts=0,\n", "            conflicts=0,\n"),),
        unit_test="tests/unit/worker/tasks/runs/spark_deaths/test_solitude.py",
    ),
    Mutation(
        name="calls a task alone that is told to stop while others begin",
        module="airflow_provider.worker.tasks.state",
        edits=(("state=state, alone=False, give_up_ms=None", "state=state, give_up_ms=None"),),
        unit_test="tests/unit/worker/tasks/test_execution_suspects.py",
    ),
    Mutation(
        name="does not wait for longer for what does not stop",
        module=f"{_RUNS}.spark_deaths.solitude",
        edits=(("TRIAL_MS << min(run.died_alone - 1, _LONGER_WAITS)", "TRIAL_MS"),),
        unit_test="tests/unit/worker/tasks/runs/spark_deaths/test_solitude.py",
    ),
    Mutation(
        name="acquits nobody while the longer trial of another task goes on",
        module=f"{_RUNS}.spark_deaths.suspects",
        edits=(("min((TRIAL_MS, *(ms for", "min((2**40, *(ms for"),),
        unit_test="tests/unit/worker/tasks/runs/spark_deaths/test_worker_suspects.py",
    ),
    Mutation(
        name="tries suspects on a server while other workers do",
        module=f"{_RUNS}.spark_deaths.shared_servers",
        edits=(("        if not server:\n", "        if True:\n"),),
        unit_test="tests/simulation/test_server_deaths.py",
    ),
    Mutation(
        name="puts all suspects on trial together",
        module=f"{_RUNS}.spark_deaths.suspects",
        edits=(("        return batch[: self._batch if self._batch_of == least else 1]\n", "        return batch\n"),),
        unit_test="tests/simulation/test_culprits.py",
    ),
    Mutation(
        name="suspects nothing that ran on a Spark that has ended",
        module=f"{_RUNS}.spark_deaths.suspects",
        edits=(("        if run.began_ms is None or run.task not in accused:\n", "        if True:\n"),),
        plan="sparks",
        broken=(_FOUND, _REST),
    ),
    Mutation(
        name="condemns who was not alone when Spark has ended",
        module=f"{_RUNS}.spark_deaths.suspects",
        edits=((" run.alone and run.deaths", " run.deaths"), ("_ALONE: Final = 2\n", "_ALONE: Final = 0\n")),
        plan="sparks",
        broken=(_ALONE,),
    ),
    Mutation(
        name="begins others while a suspect is on trial",
        module=f"{_RUNS}.spark_deaths.suspects",
        edits=(("others.union(run.task for run in waiting), NO_TASKS)", "others.union(run.task for run in waiting))"),),
        plan="sparks",
        broken=(_ALONE,),
    ),
    Mutation(
        name="tries a suspect beside what has just begun",
        module=f"{_RUNS}.spark_deaths.suspects",
        edits=(("NO_TASKS if self._some_are_young(runs, now_ms) else ", ""),),
        unit_test="tests/unit/worker/tasks/runs/spark_deaths/test_worker_suspects.py",
    ),
    Mutation(
        name="does not acquit who was tried alone when something else begins",
        module=f"{_RUNS}.spark_deaths.suspects",
        edits=(("        if alone:\n", "        if False:\n"),),
        plan="sparks",
        broken=(_ALONE,),
    ),
    Mutation(
        name="lets suspects wait for those that are to be tried",
        module=f"{_RUNS}.spark_deaths.between_trials",
        edits=((" in self.returning - tried if ", " in self.returning if "),),
        plan="sparks",
        broken=(_REST,),
    ),
    Mutation(
        name="lets what needs no trial wait for all trials",
        module=f"{_RUNS}.spark_deaths.between_trials",
        edits=(("        if self._until_ms is not None and now_ms >= self._until_ms:\n", "        if True:\n"),),
        unit_test="tests/unit/worker/tasks/runs/spark_deaths/test_between_trials.py",
    ),
    Mutation(
        name="lets what fails again and again keep off all trials",
        module=f"{_RUNS}.spark_deaths.between_trials",
        edits=(("        if self._until_ms is not None and now_ms >= self._until_ms:\n", "        if False:\n"),),
        unit_test="tests/unit/worker/tasks/runs/spark_deaths/test_between_trials.py",
    ),
    Mutation(
        name="lets what fails again and again keep off the trials of other workers",
        module=f"{_RUNS}.spark_deaths.shared_servers",
        edits=(("            if not waiting or not self._have_come_again:\n", "            if True:\n"),),
        unit_test="tests/unit/worker/tasks/runs/spark_deaths/test_shared_servers.py",
    ),
    Mutation(
        name="lets suspects whose trials are broken off keep off the trials of others",
        module=f"{_RUNS}.spark_deaths.suspects",
        edits=(("            self._were_tried |= turn.batch\n", ""),),
        unit_test="tests/unit/worker/tasks/runs/spark_deaths/test_worker_suspects.py",
    ),
    Mutation(
        name="starts nothing more when Spark has ended",
        module=f"{_RUNS}.spark_deaths.suspects",
        edits=(("doubling_ms(_FIRST_WAIT_MS, self._in_a_row, _LONGEST_WAIT_MS)", "2**40"),),
        plan="sparks",
        broken=(_REST,),
    ),
    Mutation(
        name="lets a task pay for a Spark that does not start",
        module=f"{_EXECUTION}.attempts",
        edits=(
            (
                "    x.unable = event.error\n",
                "    x.unable = event.error\n    x.runs[task] = _failed_here(x, x.runs[task], x.failure(x.unable))\n",
            ),
        ),
        plan="sparkless",
        broken=(_PAYS,),
    ),
    Mutation(
        name="stays in its group though its Spark does not start",
        module=f"{_EXECUTION}.attempts",
        edits=(("    x.unable = event.error\n", ""),),
        plan="sparkless",
        broken=(_REST,),
    ),
    Mutation(
        name="acquits nobody",
        module=f"{_RUNS}.spark_deaths.suspects",
        edits=(("        return acquitted\n", "        return []\n"),),
        unit_test="tests/simulation/test_culprits.py",
    ),
)
