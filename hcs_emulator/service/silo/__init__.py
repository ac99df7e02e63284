"""Silos: what a started compute system is on Linux, or under Wine."""
