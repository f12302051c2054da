"""Writes the golden files again."""

from tests.pipeline.golden import write

if __name__ == "__main__":
    write()
