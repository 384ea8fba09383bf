"""List planners: order the tasks once, then place them one by one."""
