// Package batches orders the transactions of one Commit, for adapters whose store
// decides several at once. Transactions that share a key go one after the other, in
// order, and all others go together.
//
//	put /a, put /b, read /a, put /c  ->  {put /a, put /b, put /c}, {read /a}
//
// It is pure: it takes transactions and returns rounds of their indexes. It does not
// look at values, so it may delay a transaction unnecessarily. It never sends one too
// early.
package batches
