"""`python -m polarised` is the command line."""

from polarised.cli import main

if __name__ == "__main__":
    main()
