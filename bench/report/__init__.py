"""What a run is turned into: results, statistics, tables, charts, the HTML report."""
