"""What the user says, as frozen records: one file per facet."""
