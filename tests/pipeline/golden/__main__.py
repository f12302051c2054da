"""Write the golden files from the model."""

from tests.pipeline.golden import write

if __name__ == "__main__":
    write()
