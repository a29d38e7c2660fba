"""What must hold before a gain is believed. A check is a pure function of (config, seen) that returns one `Check`; `running.run` runs them."""
