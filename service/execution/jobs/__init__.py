"""The door to Ray Jobs: studies are submitted to a cluster, watched and stopped there."""
