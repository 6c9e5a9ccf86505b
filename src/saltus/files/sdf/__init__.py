"""SDF, the format of Gazebo and Drake."""
