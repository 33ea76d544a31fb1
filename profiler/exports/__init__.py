"""Results for other programs: their file formats, and comments on code review sites."""
