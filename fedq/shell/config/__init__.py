"""What an operator configures: `node.yaml`, secrets and certificates."""
