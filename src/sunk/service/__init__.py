"""What every process of ours is: it follows, it leads or stands by, it answers probes, and it ends cleanly."""
