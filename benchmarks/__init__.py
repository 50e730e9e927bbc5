"""What the library costs, measured beside what people would use instead: `python -m benchmarks --help`."""
