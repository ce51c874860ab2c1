// Package api is the HTTP API of Windlass: everything that the command line does,
// with the same JSON, described by an OpenAPI 3.1 document.
//
//	viewer ──GET /v1/events──▶ ┌────────┐   one follower for all viewers
//	script ──POST /v1/tasks──▶ │ Server │ ──────────────────────────────▶ broker
//	probe  ──GET /readyz─────▶ └────────┘   one call or a few per request
//
// A Server is an http.Handler, so it can stand in a server of yours under a
// Prefix, beside its Run, which follows the broker for the events; or it stands
// alone, by Serve.
//
// What it guarantees:
//
//   - Without tokens, client certificates or an Authenticate of yours it answers
//     nobody but this machine, and under no other name than localhost, so that no
//     web page can reach it by a name that leads here.
//   - Nothing changes on a GET or HEAD. What changes something asks for a role,
//     refuses requests that come from other web sites, and is written to the audit
//     log with who, what, from where and the outcome.
//   - Every error is an RFC 9457 problem with a stable code; bad input names the
//     field, the value and the limit.
//   - Everything has a limit: bodies, headers, times, rates, viewers and what is
//     kept for them. The number of viewers makes no difference to the broker.
//
// What it does not do: it keeps no sessions and no cookies, trusts no header that
// a proxy would set, serves no page but those of package dashboard, and encrypts nothing unless its listener does.
// A list is read whole from the broker for each page of it.
package api
