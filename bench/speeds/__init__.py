"""How far efficiencies are off where an accelerator is left out, and whether one vendor's rows are taken more kindly."""
