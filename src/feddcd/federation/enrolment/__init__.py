"""How a site comes into a federation: an invitation, keys made at the site, six words compared."""
