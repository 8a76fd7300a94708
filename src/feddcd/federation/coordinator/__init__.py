"""The coordinator: who is there, rounds, tables, the certificate, and a look into the ledger."""
