"""What is measured, one module per measure.

To add a measure to the suite:

1. Write a module here with `def measure(context: SuiteContext) -> None`. Loop over
   `context.rounds(stage, candidates, rounds)`, run each action through `context.attempt(...)`, which turns a failure
   into a violation, and add samples with `context.measure(name, unit, kind).add(candidate, value)`, or a series,
   timeline or trend with `context.run`. Raise `PrerequisiteError` if a program is missing: the measure is skipped and
   the reason is reported.
2. Add its line to `MEASURES` in bench/suite.py: module name and help text. The leak check runs after each measure.

Its results are then in every table, file and chart. A target ratio is a line in bench/harness/goals.py. A number of
rounds that depends on --quick and --full is a field of `Sizes` in bench/harness/sizes.py.

A measure with its own command line, which needs no node, has `add_arguments(parser)` and
`measure(context: RunContext, arguments)`, and a line in `COMMANDS` of bench/__main__.py.

Modules that are no measures: `lifecycle` (one lifecycle, for `lifecycles` and `phases`), `starts` (one start, for
`start_formats` and `loaded_start`), `call_session` (for `later_calls`), `pods` (for `scaling` and `pod_calls`),
`overhead`, `wine_costs`, `wine_driver` and `wine_client` (for `wine` and `wine_scaling`), `relay_process`,
`ttrpc_server`, `wine_lifecycles` and `wine_pods` (processes that measures start).
"""
