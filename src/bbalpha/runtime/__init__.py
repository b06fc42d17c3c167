"""How a fit runs long: checkpoints from which a killed run goes on to the same bits."""
