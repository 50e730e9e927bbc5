"""One file per format: how it writes calls, and what is its own to test. The suites find them by themselves."""
