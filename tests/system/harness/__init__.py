# SPDX-License-Identifier: Apache-2.0
"""The foundation of the system tests; run.py describes the world they run in."""
