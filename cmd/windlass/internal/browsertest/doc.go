// Package browsertest checks the dashboard as people use it: in a real browser, against
// the built windlass, whose processes are killed and stopped meanwhile.
//
//	test ---- starts, kills ----> windlass dev, node, elect   (world)
//	  |                               ▲
//	  └── chromedp ──▶ chromium ──────┘ pages and events      (browser)
//
// Some behaviour is not available from a whole process, such as a delayed answer, a
// role that changes or a stream with contents set by the test. Servers in the test's
// own process provide it, one after the other at one address (stage).
//
// The tests wait in the page itself for everything that it shows, without loading it
// again. A request by the browser to any other server than the one under test fails the
// test, and so does an error on its console. axe-core (testdata/axe.min.js, Mozilla
// Public License 2.0) checks each page in light and dark.
//
// Without chromium the tests are skipped, and say so. With WINDLASS_SCREENSHOTS set to
// a folder they save pictures of the pages there.
package browsertest
