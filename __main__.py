"""`python -m motet` is the command `motet`."""

from .streaming.cli import main

if __name__ == "__main__":
    main()
