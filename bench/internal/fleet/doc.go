// Package fleet measures how Windlass places, moves and keeps tasks, on an etcd of
// one member and of three, beside what that etcd does at best.
//
// The measuring itself is that of "windlass bench", which this program runs as a
// process of its own, called by the name of windlass. What is measured here besides
// are limits of the broker that it does not need: bare claims that are not in bulk,
// and how fast watches tell.
package fleet
