"""Kernels that turn genomes and node counts into schedules, many at once."""
