"""The three layouts of estimated seconds; ``weft.predictors.seconds`` says what they have in common."""
