"""How visits are made and what they leave, by collector; CUPTI has a folder of its own."""
