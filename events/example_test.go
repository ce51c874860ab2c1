package events_test

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/windlass-go/windlass/events"
)

func ExampleLog() {
	untimed := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	told := events.Log(slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: untimed})))
	logged := told.Granted
	told.Granted = func(g events.Grant) { // the log and a count of moves
		logged(g)
		fmt.Println(g.Task, "has moved:", g.Moved())
	}
	told.Granted(events.Grant{Task: "mail", Token: 7, Cause: events.Moved, From: "n1", Waited: 20 * time.Millisecond})
	told.Fenced("mail", 7, fmt.Errorf("the session has ended"))
	// Output:
	// mail has moved: true
	// level=WARN msg=fenced task=mail token=7 cause="the session has ended"
}
