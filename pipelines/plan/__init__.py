"""What a day of a graph needs: measured service times, a simulation, a report."""
