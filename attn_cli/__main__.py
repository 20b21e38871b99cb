"""The program: the command attn, and python -m attn_cli."""

from attn_cli.interrupts import watch


def main() -> None:
    """Run the command line; Ctrl-C ends it at any moment, also while its modules are imported."""
    watch()
    from attn_cli.cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
