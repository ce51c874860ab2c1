//go:build e2e && linux

package browsertest

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

//go:embed testdata/axe.min.js
var axe string

// chromium is the browser's program, empty if there is none.
func chromium() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// needsChromium skips a test without a browser.
func needsChromium(t *testing.T) {
	t.Helper()
	if chromium() == "" {
		t.Skip("there is no chromium")
	}
}

// browser is one page of a browser of its own, with its errors.
type browser struct {
	*testing.T
	ctx    context.Context
	origin string

	mu sync.Mutex
	// away is set while requests fail on purpose, because the server is stopped or refuses.
	away     bool
	problems []string
}

// open starts a browser, opens an address and waits until the page is live.
func open(t *testing.T, address string) *browser {
	t.Helper()
	b := launch(t, address)
	b.load(address)
	b.isLive()
	return b
}

// launch starts a browser for the pages of an address, and loads nothing yet.
func launch(t *testing.T, address string) *browser {
	t.Helper()
	needsChromium(t)
	u, err := url.Parse(address)
	must(t, err)
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium()), chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1360, 860), chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-quic", true), chromedp.Flag("no-first-run", true),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, closeTab := chromedp.NewContext(allocator)
	b := &browser{T: t, ctx: ctx, origin: u.Scheme + "://" + u.Host}
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Error(err)
		}
		closeTab()
		stop()
	})
	// The first action starts the browser, which would end with a deadline of it.
	must(t, chromedp.Do(ctx))
	must(t, chromedp.Listen(ctx, b.heard))
	b.do(command(network.Enable, network.EnableParams{}), command(log.Enable, cdp.Empty{}), chromedp.EmulateViewport(1360, 860))
	t.Cleanup(b.checkProblems) // before the browser goes
	return b
}

// load loads a page.
func (b *browser) load(address string) {
	b.Helper()
	b.do(chromedp.Navigate(address))
}

// isLive waits until the page says so.
func (b *browser) isLive() {
	b.Helper()
	b.sees(`document.querySelector(".live")?.dataset.state === "live"`, "the page is live")
}

// heard collects errors, and requests that go elsewhere.
func (b *browser) heard(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, "exception: "+e.ExceptionDetails.Text+exceptionOf(e))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			var words []string
			for _, a := range e.Args {
				words = append(words, string(a.Value)+a.Description)
			}
			b.problems = append(b.problems, "console: "+strings.Join(words, " "))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError && !(b.away && e.Entry.Source == log.EntrySourceNetwork) {
			b.problems = append(b.problems, "log: "+e.Entry.Text+" "+e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, b.origin+"/") && !strings.HasPrefix(e.Request.URL, "data:") {
			b.problems = append(b.problems, "a request to "+e.Request.URL)
		}
	}
}

// expects removes a problem that the test has caused, and waits until it is reported.
func (b *browser) expects(problem string) {
	b.Helper()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for end := time.Now().Add(patience); !b.forgive(problem); <-tick.C {
		if time.Now().After(end) {
			b.Errorf("%q was not heard of: %q", problem, b.heardOf())
			return
		}
	}
}

// forgive removes a problem, and reports whether there was one.
func (b *browser) forgive(problem string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.problems, func(p string) bool { return strings.Contains(p, problem) })
	if i >= 0 {
		b.problems = slices.Delete(b.problems, i, i+1)
	}
	return i >= 0
}

// heardOf returns the problems so far.
func (b *browser) heardOf() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.problems)
}

func exceptionOf(e *runtime.EventExceptionThrown) string {
	if o := e.ExceptionDetails.Exception; o != nil {
		return " " + o.Description
	}
	return ""
}

// checkProblems fails the test for each problem. It holds no lock while it takes a screenshot,
// because the browser sends events meanwhile.
func (b *browser) checkProblems() {
	for _, p := range b.heardOf() {
		b.Error(p)
	}
	if !b.Failed() || b.ctx.Err() != nil {
		return
	}
	dir := os.TempDir()
	if d := os.Getenv(screenshotsEnv); d != "" {
		dir = d
	}
	path := filepath.Join(dir, fmt.Sprintf("%s-%d.png", b.Name(), os.Getpid()))
	if picture, err := b.screenshot(); err == nil && os.WriteFile(path, picture, 0o600) == nil {
		b.Logf("the page is in %s", path)
	}
}

func (b *browser) leaves() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = true
}

// command sends a command of the browser's protocol.
func command[P any](c cdp.Command[P, cdp.Empty], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

// do runs actions, within patience.
func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	must(b.T, chromedp.Do(ctx, actions...))
}

// value evaluates an expression in the page, and waits for it if it is a promise.
func value[T any](b *browser, expression string) T {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	result, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.Fatalf("%v: %.300s", err, expression)
	}
	return result
}

// runs evaluates statements in the page.
func (b *browser) runs(statements string) {
	b.Helper()
	value[bool](b, "(() => {"+statements+"; return true})()")
}

// sees waits until a condition holds in the page.
func (b *browser) sees(condition, what string) {
	b.Helper()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for end := time.Now().Add(patience); !value[bool](b, "Boolean("+condition+")"); <-poll.C {
		if time.Now().After(end) {
			b.Fatalf("not seen: %s (%s); the page says:\n%s", what, condition, value[string](b, `location.hash + "\n" + document.body.innerText.slice(0, 3000)`))
		}
	}
}

// says waits until a part of the page has a text.
func (b *browser) says(selector, text string) {
	b.Helper()
	b.sees(fmt.Sprintf(`[...document.querySelectorAll(%s)].some((e) => e.textContent.includes(%s))`, quoted(selector), quoted(text)), selector+" says "+text)
}

func quoted(text string) string {
	q, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string
	}
	return string(q)
}

// press types keys, as chromedp spells them. The text of a key is part of its keydown event, as
// from a keyboard. A page that uses the key as a command could not suppress a separate event.
func (b *browser) press(keys ...string) {
	b.Helper()
	for _, r := range strings.Join(keys, "") {
		events := kb.Encode(r)
		if len(events) == 3 {
			events[0].Text, events[0].UnmodifiedText = events[1].Text, events[1].UnmodifiedText
			events = []*input.DispatchKeyEventParams{events[0], events[2]}
			events[0].Type = input.DispatchKeyEventTypeKeyDown
		}
		for _, e := range events {
			b.do(command(input.DispatchKeyEvent, *e))
		}
	}
}

// push clicks the button with a text below a selector, once it is there and enabled.
func (b *browser) push(within, text string) {
	b.Helper()
	find := fmt.Sprintf(`[...document.querySelectorAll(%s)].find((e) => e.firstChild?.textContent.trim() === %s && e.getAttribute("aria-disabled") !== "true")`,
		quoted(within+" button"), quoted(text))
	b.sees(find, "the button "+text+" in "+within)
	b.runs(find + ".click()")
}

// confirm clicks a button, and the button of the same name in the dialog that it opens.
func (b *browser) confirm(within, text string) {
	b.Helper()
	b.push(within, text)
	b.push("dialog", text)
}

// fill replaces the text of a field.
func (b *browser) fill(selector, text string) {
	b.Helper()
	b.sees(fmt.Sprintf("document.querySelector(%s)", quoted(selector)), selector)
	b.runs(fmt.Sprintf("const e = document.querySelector(%s); e.focus(); e.select()", quoted(selector)))
	b.press(text)
}

// visit goes to a page as a link does, without loading it again.
func (b *browser) visit(hash, title string) {
	b.Helper()
	b.runs("location.hash = " + quoted(hash))
	b.says("h1", title)
}

// resize gives the page another size.
func (b *browser) resize(width, height int64) {
	b.Helper()
	b.do(chromedp.EmulateViewport(width, height))
	b.sees(fmt.Sprintf("innerWidth === %d", width), "the new size")
}

// colours switches the page to light or dark, and the system as well.
func (b *browser) colours(scheme string) {
	b.Helper()
	b.do(command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
	b.sees(fmt.Sprintf(`document.documentElement.dataset.theme === %q`, scheme), "the page is "+scheme)
}

// accessible fails for findings of axe-core that are serious or critical.
func (b *browser) accessible(what string) {
	b.Helper()
	if !value[bool](b, `typeof axe !== "undefined"`) {
		b.runs(axe)
	}
	findings := value[[]string](b, `axe.run(document, { resultTypes: ["violations"] }).then((r) => r.violations
		.filter((v) => v.impact === "serious" || v.impact === "critical")
		.flatMap((v) => v.nodes.map((n) => v.impact + " " + v.id + ": " + n.html.slice(0, 160) + " " + n.failureSummary.replaceAll("\n", " "))))`)
	for _, f := range findings {
		b.Errorf("%s: %s", what, f)
	}
}

// fits fails if the page scrolls sideways.
func (b *browser) fits(what string) {
	b.Helper()
	if wide := value[[]string](b, `document.documentElement.scrollWidth <= innerWidth ? [] : ["scrollWidth " + document.documentElement.scrollWidth,
		...[...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1).slice(0, 5).map((e) => e.outerHTML.slice(0, 120))]`); len(wide) > 0 {
		b.Errorf("%s scrolls sideways: %q", what, wide)
	}
}

// screenshotsEnv names the folder for pictures; without it none are made.
const screenshotsEnv = "WINDLASS_SCREENSHOTS"

func (b *browser) screenshot() ([]byte, error) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.CaptureScreenshot())
}

func (b *browser) picture(name string) {
	b.Helper()
	dir := os.Getenv(screenshotsEnv)
	if dir == "" {
		return
	}
	picture, err := b.screenshot()
	must(b.T, err)
	must(b.T, os.MkdirAll(dir, 0o755))
	must(b.T, os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644))
}
