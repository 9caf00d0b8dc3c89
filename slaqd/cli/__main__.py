"""``python -m slaqd.cli`` is ``slaqctl``."""

from slaqd.cli import main

if __name__ == "__main__":
    main()
