"""Measurements that take too long for CI: each is a nox session."""
