#!/bin/sh
# Count the words of a file: one line for each, number first.
set -eu
tr -cs '[:alpha:]' '\n' < "$1" | tr '[:upper:]' '[:lower:]' | sed '/^$/d' | sort | uniq -c
