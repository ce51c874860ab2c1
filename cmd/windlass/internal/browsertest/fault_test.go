//go:build e2e && linux

package browsertest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/api"
)

func TestDashboard_IsNotLiveBeforeWhatItHasMissedIsListed(t *testing.T) {
	s := newStage(t, nil)
	s.submit("x", "old", "kept")
	b := open(t, s.address)
	b.visit("#/tasks", "Tasks")
	b.sees(`document.querySelectorAll(".gridbody .row").length === 2`, "the tasks")
	listing, goOn := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	s.meanwhile(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/v1/tasks" && once.CompareAndSwap(false, true) {
			close(listing)
			<-goOn
		}
		return true
	})
	b.leaves()
	s.play(nil) // it knows nothing of the stream of the one before
	select {
	case <-listing:
	case <-time.After(patience):
		t.Fatal("the page does not list")
	}
	if got := value[string](b, `document.querySelector(".live").dataset.state`); got == "live" {
		t.Error("the page calls itself live while it does not know what it has missed")
	}
	s.submit("x", "new")
	s.remove("old")
	close(goOn)
	b.isLive()
	b.sees(`[...document.querySelectorAll(".gridbody .row")].map((e) => e.dataset.id).join() === "kept,new"`, "what is there now")
}

func TestDashboard_APageThatNobodyHasSeenTakesNoConnection(t *testing.T) {
	s := newStage(t, nil)
	var streams atomic.Int64
	s.meanwhile(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/v1/events" {
			streams.Add(1)
		}
		return true
	})
	b := launch(t, s.address)
	// As the browser has it of a tab that was opened in the background.
	b.do(command(page.Enable, page.EnableParams{}), onNewDocument(`window.seen = "hidden";
		Object.defineProperty(document, "visibilityState", { get: () => window.seen })`))
	b.load(s.address)
	b.says(".tools .role", "admin")
	b.sees(`document.querySelector(".live").dataset.state === "connecting"`, "that it waits")
	if n := streams.Load(); n != 0 {
		t.Errorf("it has opened %d streams", n)
	}
	b.runs(`window.seen = "visible"; document.dispatchEvent(new Event("visibilitychange"))`)
	b.isLive()
	if n := streams.Load(); n != 1 {
		t.Errorf("it has opened %d streams", n)
	}
}

// onNewDocument runs a script before those of each page.
func onNewDocument(script string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		return err
	})
}

func TestDashboard_SelectsWhatIsMeantWhileTheListMoves(t *testing.T) {
	s := newStage(t, nil)
	for i := range 10 {
		s.submit("x", fmt.Sprintf("t%d", i))
	}
	b := open(t, s.address)
	b.visit("#/tasks", "Tasks")
	b.sees(`document.querySelectorAll(".gridbody .row").length === 10`, "the tasks")
	pick := func(id, shift string) {
		t.Helper()
		b.runs(fmt.Sprintf(`document.querySelector('.row[data-id=%q] input').dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, shiftKey: %s }))`, id, shift))
	}
	picked := func(ids string) {
		t.Helper()
		b.sees(fmt.Sprintf(`[...document.querySelectorAll(".row.picked")].map((e) => e.dataset.id).join() === %q`, ids), ids+" are selected")
	}
	pick("t5", "false")
	picked("t5")
	s.remove("t0", "t1", "t2")
	b.sees(`document.querySelectorAll(".gridbody .row").length === 7`, "that three are gone")
	pick("t7", "true")
	picked("t5,t6,t7")

	// A key that presses a button is none of the list.
	b.runs(`document.querySelector(".c-type .sort").focus()`)
	b.press(" ")
	b.sees(`document.querySelector(".c-type").getAttribute("aria-sort") === "ascending"`, "another order")
	picked("t5,t6,t7")

	// What was confirmed is what is sent, and its window stays, whatever goes meanwhile.
	b.push(".bulkbar", "Kill")
	b.says("dialog h2", "Kill 3 tasks?")
	s.remove("t5", "t6", "t7")
	b.sees(`!document.querySelector(".bulkbar")`, "that they are gone")
	b.push("dialog", "Kill 3 tasks")
	b.says("dialog h2", "3 tasks could not be told")
	b.sees(`[...document.querySelectorAll("dialog .ids li b")].map((e) => e.textContent).join() === "t5,t6,t7"`, "which ones")
}

func TestDashboard_StopsToSendWhenItsWindowIsClosed(t *testing.T) {
	const tasks, part = 5001, 5000
	s := newStage(t, nil)
	ids := make([]string, tasks)
	for i := range ids {
		ids[i] = fmt.Sprintf("t%04d", i)
	}
	s.submit("x", ids...)
	b := open(t, s.address)
	b.visit("#/tasks", "Tasks")
	b.sees(fmt.Sprintf(`document.querySelector(".grid")?.getAttribute("aria-rowcount") === "%d"`, tasks+1), "the tasks")
	b.runs(`document.querySelector("[data-list]").focus()`)
	b.press("a")
	b.push(".bulkbar", "Pause")
	sending, goOn := make(chan struct{}), make(chan struct{})
	s.meanwhile(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/v1/commands" {
			return true
		}
		close(sending) // a second one would panic
		<-goOn
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, "["+strings.Repeat(`{"id":"t0000","message":"pause","result":"sent"},`, part-1)+`{"id":"t0001","message":"pause","result":"sent"}]`)
		return false
	})
	b.push("dialog", "Pause 5,001 tasks")
	select {
	case <-sending:
	case <-time.After(patience):
		t.Fatal("nothing was sent")
	}
	b.push("dialog", "Stop")
	b.sees(`!document.querySelector("dialog")`, "that the window is closed")
	close(goOn)
	b.says(".toast", "5,000 of 5,001 tasks were told")
	if n := s.changes.Load(); n != 1 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestDashboard_OddAddressesAndTokensDoNotBreakIt(t *testing.T) {
	s := newStage(t, func(c *api.Config) {
		c.Authenticate = func(r *http.Request) (api.Caller, bool) {
			return api.Caller{Name: "ann", Role: api.RoleView}, r.Header.Get("Authorization") == "Bearer right"
		}
	})
	s.meanwhile(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Date", time.Now().Add(2*time.Hour+time.Minute).UTC().Format(http.TimeFormat))
		return true
	})
	s.submit("x", "a")
	b := launch(t, s.address)
	b.leaves() // answers of 401 are errors for the browser
	b.load(s.address + "#token=%")
	b.sees(`document.querySelector("#token") && !location.href.includes("token")`, "that a token is wanted")
	for token, says := range map[string]string{"näive": "ASCII", "two words": "ASCII", "wrong": "does not accept"} {
		b.fill("#token", token)
		b.push("form", "Continue")
		b.says("#token-hint", says)
	}
	b.fill("#token", " right ")
	b.push("form", "Continue")
	b.isLive()
	b.load(s.address + "#/tasks?status=__proto__&status=&type=constructor&sort=-constructor&q=%&node=%ff&q=x") // loaded anew: the token is still there
	b.isLive()
	b.visit("#/task/%zz", "%zz")
	b.says(".empty", "no task of this ID")
	b.visit("#/constructor", "Not found")
	b.visit("#/tasks?q=what?&type=x?y", "Tasks")
	b.sees(`document.querySelector("[data-filter]").value === "what?"`, "the whole filter")
	b.visit("#/tasks", "Tasks")
	b.sees(`document.querySelector(".gridbody .c-changed time")?.textContent === "2h"`, "an age by the clock of the server, which is ahead")
}

// scripted has streams of events say what the test sends, and nothing else. Each text
// is a part of a stream, an empty one its end; the next stream is opened then.
func (s *stage) scripted() func(text string) {
	says := make(chan string)
	s.meanwhile(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/v1/events" {
			return true
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			select {
			case <-r.Context().Done():
				return false
			case text := <-says:
				if text == "" {
					return false
				}
				if _, err := fmt.Fprint(w, text); err != nil || http.NewResponseController(w).Flush() != nil {
					return false
				}
			}
		}
	})
	return func(text string) {
		s.Helper()
		select {
		case says <- text:
		case <-time.After(patience):
			s.Fatalf("no stream takes %q", text)
		}
	}
}

// electionEvent returns an event about the candidates of an election.
func electionEvent(leader string, token int, next string) string {
	return fmt.Sprintf("id: 1.s.%d\nevent: election\ndata: {\"name\":\"nightly\",\"leader\":%q,\"token\":%d,\"candidates\":[{\"name\":%q,\"token\":%d},{\"name\":%q,\"token\":%d}]}\n\n",
		token, leader, token, leader, token, next, token+1)
}

const listEvent = "id: 1.s.0\nevent: list\ndata: {\"reason\":\"start\"}\n\n"

func TestDashboard_AsksNobodyButWhoWasNamedToResign(t *testing.T) {
	s := newStage(t, nil)
	says := s.scripted()
	b := launch(t, s.address)
	b.load(s.address + "#/elections")
	says(listEvent)
	b.isLive()
	says(electionEvent("alpha", 1, "beta"))
	b.push(".card", "Resign alpha")
	b.says("dialog h2", "Have alpha resign?")
	says(electionEvent("beta", 2, "alpha"))
	b.says(".line-up .leads", "beta")
	b.says("dialog h2", "Have alpha resign?")
	b.says(`dialog .primary[aria-disabled="true"]`, "beta leads by now.")
	b.runs(`document.querySelector("dialog .primary").click()`)
	b.push("dialog", "Cancel")
	if n := s.changes.Load(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestDashboard_IsNotLiveWhileItsServerCannotFollowTheBroker(t *testing.T) {
	s := newStage(t, nil)
	says := s.scripted()
	b := launch(t, s.address)
	b.load(s.address)
	says(listEvent)
	b.isLive()
	says("id: 1.s.1\nevent: trouble\ndata: {\"detail\":\"no quorum\"}\n\n")
	b.says("p.stale", "The server cannot follow the broker: no quorum")
	asked := `performance.getEntriesByType("resource").filter((e) => e.name.endsWith("/v1/whoami")).length`
	before := value[int](b, asked)
	says("") // the stream breaks
	b.says("p.stale", "closed the stream")
	says(":\n\n") // and goes on
	b.sees(fmt.Sprintf("%s > %d", asked, before), "that the stream is open again")
	if got := value[string](b, `document.querySelector(".live").dataset.state`); got == "live" {
		t.Error("the page calls itself live while its server has trouble")
	}
	b.isLive() // as the broker answers
}

// hostile lists names that a page might misinterpret.
var hostile = []string{
	`<img src=x onerror=document.title='taken'>`, "constructor", "a_x", "a_x|toString_x", "%2f%2e%2e", "a?b#c&d=e", `"'>\<`, "ａ b", "שלום",
	wide, strings.Repeat("w|", 40) + "w",
}

// wide is wider than a phone.
var wide = strings.Repeat("long", 32)

func TestDashboard_ShowsWhateverThingsAreCalledAsText(t *testing.T) {
	s := newStage(t, nil)
	for _, name := range hostile {
		taskType := "x"
		if name == wide {
			taskType = wide
		}
		task := windlass.Submission{ID: name, Spec: windlass.Spec{Type: taskType, Job: strings.HasSuffix(name, "_x")}, Props: []byte(`{"__proto__":"<b>\u202e\ud800\u0000","a":["` + strings.Repeat("wide", 200) + `"]}`)}
		must(t, s.client.Submit(t.Context(), task))
	}
	says := s.scripted()
	b := launch(t, s.address)
	b.load(s.address)
	says(listEvent)
	b.isLive()
	says("id: 1.s.1\nevent: node\ndata: " + hostileNode + "\n\n")
	says(electionEvent(hostile[0], 5, strings.Repeat("candidate", 20)))
	b.resize(360, 740)
	for _, p := range places {
		if p.name == "task" {
			continue
		}
		b.visit(p.hash, p.title)
		switch p.name {
		case "tasks":
			b.sees(fmt.Sprintf(`document.querySelectorAll(".gridbody .row").length === %d`, len(hostile)), "all tasks")
			b.runs(`document.querySelector("[data-list]").focus()`)
			b.press("a")
			b.says(".bulkbar", "selected")
			b.fits("what was selected")
			b.push(".bulkbar", "Select none")
		case "nodes":
			b.says("[data-node]", "<s>n1</s>")
		case "node":
			b.visit("#/node/%3Cs%3En1%3C%2Fs%3E", "<s>n1</s>")
			b.says(".facts", "__proto__=a")
			b.sees(`!document.body.textContent.includes("native code")`, "no limit that nobody has set")
		case "trees":
			b.sees(`document.querySelectorAll(".vertex").length > 0`, "the jobs")
		case "elections":
			b.push(".card", "Resign "+hostile[0])
			b.says("dialog", hostile[0])
			b.fits("the dialog")
			b.push("dialog", "Cancel")
		}
		b.fits(p.name)
		b.accessible(p.name + " with odd names")
	}
	for _, id := range hostile {
		b.visit("#/tasks", "Tasks")
		b.sees(`document.querySelector(".gridbody .row")`, "the list")
		b.runs(fmt.Sprintf(`[...document.querySelectorAll(".c-id a")].find((e) => e.textContent === %s).click()`, quoted(id)))
		b.says("h1", id)
		b.says(".facts", "Submitted")
		b.sees(fmt.Sprintf(`document.title.startsWith(%s)`, quoted(strings.Fields(id)[0])), "its title")
		b.fits(id)
	}
	b.sees(`!document.querySelector("img, main b:not([class]) img")`, "no markup")
}

// hostileNode is a registration that a page might misinterpret.
const hostileNode = `{"name":"<s>n1</s>","tasks":1,"frozen":false,"draining":false,"zone":"<b>\u202ezone\u0007","labels":{"__proto__":"a","<i>":"\u2066b"},"capacity":0,` +
	`"started_at":"never","session_ttl":"15s","version":"","types":["constructor","toString"],"limits":{"exec":1},"incarnation":"1","host":"` + "hosthosthosthosthosthosthosthosthosthosthosthosthosthosthosthosthost" + `"}`

func TestDashboard_FormsSendOnceAndShowWhatIsWrongWhereItIs(t *testing.T) {
	s := newStage(t, nil)
	b := open(t, s.address)
	b.visit("#/submit", "Submit a task")
	b.fill("#id", "a")
	b.runs(`document.querySelector("details.card").open = true`)
	b.fill("#priority", "5000")
	b.fill("#require", "disk")
	b.fill("#command", "true")
	b.runs(`document.querySelector("details.card").open = false`)
	b.push("form", "Submit")
	b.says("#require-hint", "key=value")
	b.sees(`document.querySelector("details.card").open && document.activeElement.id === "require"`, "the field that is wrong")
	b.fill("#require", "disk=ssd")
	b.runs(`document.querySelector("details.card").open = false`)
	b.push("form", "Submit")
	b.says("#priority-hint", "1000")
	b.expects("status of 422")
	b.sees(`document.querySelector("details.card").open && document.activeElement.id === "priority"`, "the field that is wrong")
	b.fill("#priority", "5")
	goOn := make(chan struct{})
	s.meanwhile(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost {
			<-goOn
		}
		return true
	})
	before := s.changes.Load()
	b.push("form", "Submit")
	b.sees(`document.querySelector(".formfoot .button").getAttribute("aria-disabled") === "true"`, "that it is being sent")
	b.runs(`document.querySelector(".formfoot .button").click()`)
	b.runs(`document.querySelector("form").requestSubmit()`)
	close(goOn)
	b.says(".toast", "a was submitted.")
	if n := s.changes.Load() - before; n != 1 {
		t.Errorf("it was sent %d times", n)
	}
}

func TestDashboard_SaysWhenItIsOlderThanItsServer(t *testing.T) {
	s := newStage(t, nil)
	s.submit("x", "a_x")
	s.meanwhile(func(w http.ResponseWriter, r *http.Request) bool {
		gone := strings.Contains(r.URL.Path, "worker")
		if gone {
			http.NotFound(w, r)
		}
		return !gone
	})
	b := open(t, s.address)
	b.leaves() // the script of another version is not there any more
	b.visit("#/trees", "Trees")
	b.says(".graph [role=alert]", "Load the page anew")
}
