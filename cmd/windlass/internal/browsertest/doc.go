// Package browsertest checks the dashboard as people use it: in a real browser,
// against the built windlass, whose processes are killed and stopped meanwhile.
//
//	test ---- starts, kills ----> windlass dev, node, elect   (world)
//	  |                               ▲
//	  └── chromedp ──▶ chromium ──────┘ pages and events      (browser)
//
// What cannot be had of a whole process, such as an answer that is held back, a role that
// changes or a stream that says what the test wants, comes from servers in the test's own
// process, one after the other at one address (stage).
//
// Everything that the pages show is waited for in the page itself, without loading it
// anew. Whatever the browser asks for elsewhere than at the server under test, and
// whatever it writes to its console as an error, fails the test. Each page is checked by
// axe-core (testdata/axe.min.js, Mozilla Public License 2.0) in light and dark.
//
// Where there is no chromium the tests are skipped, and say so. With WINDLASS_SCREENSHOTS
// set to a folder they leave pictures of the pages there.
package browsertest
