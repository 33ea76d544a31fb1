"""From a run folder to a report: one way for live runs, recordings and `report`."""
