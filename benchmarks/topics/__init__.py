"""What ``hundred_topics`` measures with: a lakehouse of real parts, a producer, our forms and a plain script."""
