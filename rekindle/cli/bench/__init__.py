"""The benchmarks: each asks one question and answers it with ratios from one run."""
