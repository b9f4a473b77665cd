# SPDX-License-Identifier: Apache-2.0
"""What the system tests stand on; run.py explains the world they run in."""
