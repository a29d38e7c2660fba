"""The shipped diagnostics, one file each. A file defines `DIAGNOSTIC`."""
