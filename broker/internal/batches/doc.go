// Package batches orders the transactions of one Commit, for the adapters whose store
// decides several at once: those with a key in common go one after the other, in
// order, and all others together.
//
//	put /a, put /b, read /a, put /c  ->  {put /a, put /b, put /c}, {read /a}
//
// It is pure: transactions in, rounds of their indexes out. It does not look at what
// the keys hold, so that it may hold one back that could have gone; it never lets
// one go that could not.
package batches
