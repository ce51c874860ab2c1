// Package dashboard has the web pages of Windlass: static files, built from web/ and
// embedded in the program.
//
//	browser ── GET / ─────────▶ Pages (no data, no token)
//	   └────── /v1/…, token ──▶ package api
//
// The pages are a client of the HTTP API like any other; package api serves both on
// one port. They ask nothing of any other server.
//
// What it guarantees:
//
//   - Only what is in dist is served, at exactly spelled paths, to GET and HEAD.
//   - A policy goes with every page by which browsers refuse scripts, styles and
//     connections that are not from the same server, and inline ones.
//   - A test builds nothing: it compares the hash of web/ that the build has written
//     into dist, so that output which is out of date fails.
//
// What it does not do: it knows nothing of tasks, callers or brokers. "make
// dashboard" builds dist; Go programs need no npm.
package dashboard
