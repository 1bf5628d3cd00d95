"""Recorded results of playbook runs without changes. These results and the inputs of a run determine its outcome."""
