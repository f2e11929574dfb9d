"""What an encoding knows: the probes of a study's runs, computed once and kept beside the answers."""
