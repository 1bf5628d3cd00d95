"""Builds the Kubernetes bundle: all that kubeadm needs where no package repository and no image registry answers.

Standard library only, Python 3.9 on, like the bootstrap, whose machine, stages and Go it uses.
"""
