"""python -m attn_cli."""

from attn_cli.cli import main

if __name__ == "__main__":
    main()
