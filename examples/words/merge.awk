# Add the counts of equal words, and show the most frequent ones.
{ count[$2] += $1 }
END {
    for (word in count) print count[word], word | "sort -k1,1nr -k2 | head -n " shown
}
