"""The package's version: one place, read by the build, the command line and every file we write."""

__version__ = "0.1.0"
