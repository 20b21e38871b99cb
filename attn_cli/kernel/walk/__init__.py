"""The same attention a few query rows at a time: how it is computed fast, in memory that grows with n."""
