"""Containers: images and Dockerfiles."""
