"""One file for each format that is read, with its IMPORTER: `registry` finds them."""
