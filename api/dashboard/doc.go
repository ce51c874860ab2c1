// Package dashboard has the web pages of Windlass: static files, built from web/ and
// embedded in the program.
//
//	browser ── GET / ─────────▶ Pages (no data, no token)
//	   └────── /v1/…, token ──▶ package api
//
// The pages are an ordinary client of the HTTP API; package api serves both on one
// port. They send no requests to any other server.
//
// Guarantees:
//
//   - Only the files in dist are served, at exactly spelled paths, to GET and HEAD.
//   - Every page has a content security policy: browsers refuse scripts, styles and
//     connections from other servers, and inline scripts and styles.
//   - The tests build nothing: one compares the hash of web/ with the hash that the
//     build wrote into dist, so that outdated output fails.
//
// What it does not do: it knows nothing of tasks, callers or brokers. "make dashboard"
// builds dist; Go programs need no npm.
package dashboard
