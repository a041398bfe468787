"""The benchmarks' own arithmetic: figures, medians, verdicts, charts; no broker is started."""
