"""Results of a run: the model, statistics, the gate, tables, exports, charts and the HTML report."""
