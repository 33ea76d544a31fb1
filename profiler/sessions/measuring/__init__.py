"""Making the visits of sessions: in processes of the runner, or of an external command."""
