"""``python -m sjepa`` is the command line."""

from sjepa.cli import main


if __name__ == "__main__":
    main()
