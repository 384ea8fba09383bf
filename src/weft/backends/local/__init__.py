"""Backend for named machines of this host, each with a sandbox and a runner process."""
