#!/bin/sh
# Split a text into parts of so many lines, and write their names down.
set -eu
split -l "$1" "$2" part.
ls part.* > parts
