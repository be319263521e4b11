"""Slurm on Kubernetes: one machine pool that serves Slurm jobs and Kubernetes Pods under one scheduler."""
