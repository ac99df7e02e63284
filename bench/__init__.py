"""The benchmark suite: drives shims as containerd does and reports their cost as ratios to a baseline.

Packages, and what each may import of the others (checked by tests/unit/bench/test_import_rules.py):

- `bench.report`: the results model (`report.results`) and everything that is computed or written from it: statistics,
  gate, tables, exports, charts, the HTML report. Imports nothing else of bench, so old results can be read anywhere.
- `bench.harness`: drives a shim: candidates, bundles, commands, ttrpc calls, events, the leak check, progress. Of
  `bench.report` it imports only `report.results`.
- `bench.measures`: what is measured, one module per measure. Imports `bench.harness` and `report.results`.
- `bench.suite` (the table of measures), `bench.runner` (one run: measure, judge, write, print) and `bench.__main__`
  (the command line) join the three. No package imports them.
"""
