#!/bin/sh
# Count the lines and words of a file.
set -eu
echo "lines: $(wc -l < "$1")"
echo "words: $(wc -w < "$1")"
