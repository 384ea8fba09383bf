#!/bin/sh
# Split a text into parts of a given number of lines, and write the names of the parts.
set -eu
split -l "$1" "$2" part.
ls part.* > parts
