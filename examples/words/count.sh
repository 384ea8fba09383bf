#!/bin/sh
# Count the words of a file: one line per word, number first.
set -eu
tr -cs '[:alpha:]' '\n' < "$1" | tr '[:upper:]' '[:lower:]' | sed '/^$/d' | sort | uniq -c
