package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
)

// TestMain lets scripts run this binary as windlass. It is a supervisor of
// commands as well, since a node starts its own program for that.
func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){
		"windlass": func() { os.Exit(Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// leakChecked fails a run of tests that leaves goroutines behind.
type leakChecked struct{ m *testing.M }

// Run implements testscript.TestingM.
func (l leakChecked) Run() int {
	code := l.m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// Each script is one behaviour of the command line, named noun-verb: those in script need
// no broker, and those in e2e start one. Beside testscript's own commands there are:
//
//	exits CODE PROGRAM ARG...       runs it and expects that exit code
//	[!] eventually COMMAND PATTERN  runs it until its output does (not) match
//	json FILE PATH [PATTERN]        a value exists, and matches if a pattern is given
//	put FOLDER KEY VALUE            writes a key by hand into the store of that dev
//	delete FOLDER KEY               deletes one by hand
//	[unshare-uts]                   whether a command can be given another host name
//	port VARIABLE                   sets it to a port that is free
//	http CODE METHOD URL HEADERS [BODY]
//	                                asks with the headers of a file, or of none for
//	                                -, once somebody listens, and expects that status
func runScripts(t *testing.T, folder string) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", folder),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			// Or each windlass waits for a second at its end, under -race.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
			env.Setenv("XDG_RUNTIME_DIR", filepath.Join(env.WorkDir, "run"))
			return errors.Join(os.Mkdir(env.Getenv("HOME"), 0o700), os.Mkdir(env.Getenv("XDG_RUNTIME_DIR"), 0o700))
		},
		Condition: func(name string) (bool, error) {
			if name != "unshare-uts" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			return exec.Command("unshare", "--uts", "true").Run() == nil, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": scriptExits, "eventually": scriptEventually, "json": scriptJSON, "put": scriptPut, "delete": scriptDelete,
			"port": scriptPort, "http": scriptHTTP,
		},
	})
}

func TestScript(t *testing.T) { runScripts(t, "script") }

func checkUsage(ts *testscript.TestScript, neg bool, args []string, least, most int, usage string) {
	if neg || len(args) < least || len(args) > most {
		ts.Fatalf("usage: %s", usage)
	}
}

func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// eventuallyMax bounds how long a script waits for something.
const eventuallyMax = 2 * time.Minute

// poll tries until it is done.
func poll(ts *testscript.TestScript, what string, try func() (done bool)) {
	ticks := time.NewTicker(50 * time.Millisecond)
	defer ticks.Stop()
	for end := time.Now().Add(eventuallyMax); !try(); <-ticks.C {
		if time.Now().After(end) {
			ts.Fatalf("not within %v: %s", eventuallyMax, what)
		}
	}
}

func scriptEventually(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: [!] eventually COMMAND PATTERN")
	}
	command := strings.Fields(args[0])
	pattern, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	poll(ts, args[1], func() bool {
		// It may fail for now, for example because the broker is starting.
		failed := ts.Exec(command[0], command[1:]...)
		return failed == nil && pattern.MatchString(ts.ReadFile("stdout")) != neg
	})
}

func scriptPut(ts *testscript.TestScript, neg bool, args []string) {
	checkUsage(ts, neg, args, 3, 3, "put FOLDER KEY VALUE")
	commitByHand(ts, args[0], broker.Put(args[1], []byte(args[2])))
}

func scriptDelete(ts *testscript.TestScript, neg bool, args []string) {
	checkUsage(ts, neg, args, 2, 2, "delete FOLDER KEY")
	commitByHand(ts, args[0], broker.Delete(args[1]))
}

func commitByHand(ts *testscript.TestScript, folder string, op broker.Op) {
	store, err := embedded.Dial(context.Background(), ts.MkAbs(folder))
	ts.Check(err)
	_, err = broker.CommitOne(context.Background(), store, broker.Txn{Then: []broker.Op{op}})
	ts.Check(errors.Join(err, store.Close()))
}

func scriptPort(ts *testscript.TestScript, neg bool, args []string) {
	checkUsage(ts, neg, args, 1, 1, "port VARIABLE")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	ts.Check(errors.Join(err, listener.Close()))
	ts.Setenv(args[0], port)
}

func scriptHTTP(ts *testscript.TestScript, neg bool, args []string) {
	checkUsage(ts, neg, args, 4, 5, "http CODE METHOD URL HEADERS [BODY]")
	body := strings.Join(args[4:], "")
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	var response *http.Response
	poll(ts, args[2], func() bool {
		r, err := http.NewRequest(args[1], args[2], strings.NewReader(body))
		ts.Check(err)
		r.Header.Set("Content-Type", "application/json")
		if args[3] != "-" {
			for line := range strings.Lines(ts.ReadFile(args[3])) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
				r.Header.Set(name, value)
			}
		}
		response, err = (&http.Client{Transport: transport}).Do(r)
		return err == nil
	})
	_, err := io.Copy(ts.Stdout(), response.Body)
	ts.Check(errors.Join(err, response.Body.Close()))
	if fmt.Sprint(response.StatusCode) != args[0] {
		ts.Fatalf("status %d, want %s", response.StatusCode, args[0])
	}
}

func scriptJSON(ts *testscript.TestScript, neg bool, args []string) {
	checkUsage(ts, neg, args, 2, 3, "json FILE PATH [PATTERN]")
	var value any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &value))
	for step := range strings.SplitSeq(args[1], ".") {
		next, ok := into(value, step)
		if !ok {
			ts.Fatalf("%s: there is no %q in %v", args[1], step, value)
		}
		value = next
	}
	text, isText := value.(string)
	if !isText {
		encoded, err := json.Marshal(value)
		ts.Check(err)
		text = string(encoded)
	}
	if len(args) == 3 && !regexp.MustCompile(args[2]).MatchString(text) {
		ts.Fatalf("%s is %s, want a match of %s", args[1], text, args[2])
	}
}

// into takes one step: a field's name, or an index.
func into(value any, step string) (any, bool) {
	switch v := value.(type) {
	case map[string]any:
		next, ok := v[step]
		return next, ok
	case []any:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(v) {
			return v[i], true
		}
	}
	return nil, false
}
