"""Backend for named machines on this host, each with a sandbox and a runner process."""
