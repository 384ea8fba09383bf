"""Programs on the named workers of a Dask cluster."""
