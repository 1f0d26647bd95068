"""For test suites: a pytest plugin that gives tests an NPU, real or emulated.

Installing Jumar registers it. `docs/guide-testing.md` shows its use.
"""
