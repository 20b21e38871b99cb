"""Attention a few query rows at a time, in memory that grows with n; equal to the definition cell by cell."""
