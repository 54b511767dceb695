"""Files of a trained model for the engines that serve it, one module per format."""
