"""What the five papers give together: experiments of no paper (spec unified section 9)."""
