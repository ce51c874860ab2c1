// Package api is the HTTP API of Windlass. It does everything that the command line
// does, with the same JSON, and an OpenAPI 3.1 document describes it.
//
//	viewer ──GET /v1/events──▶ ┌────────┐   one follower for all viewers
//	script ──POST /v1/tasks──▶ │ Server │ ──────────────────────────────▶ broker
//	probe  ──GET /readyz─────▶ └────────┘   one call or a few per request
//
// A Server is an http.Handler. It can be part of your own server under a Prefix, beside
// its Run, which follows the broker for the events; or it runs alone, by Serve.
//
// Guarantees:
//
//   - Without tokens, client certificates or an Authenticate of yours it answers only
//     requests from this machine, and only under the name localhost, so that no web
//     page can reach it by a name that leads here.
//   - Nothing changes on a GET or HEAD. Every request that changes something requires a
//     role, is refused if it comes from another web site, and is written to the audit
//     log with who, what, from where and the outcome.
//   - Every error is an RFC 9457 problem with a stable code; bad input names the field,
//     the value and the limit.
//   - Everything has a limit: bodies, headers, times, rates, viewers and the data kept
//     for them. The number of viewers makes no difference to the broker.
//
// What it does not do: it keeps no sessions and no cookies, trusts no header that a
// proxy would set, serves no pages except those of package dashboard, and encrypts
// nothing unless its listener does. It reads a list in full from the broker for each
// page of it.
package api
