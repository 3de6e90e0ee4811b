# Install rules and the package files.
