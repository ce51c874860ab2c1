package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/api"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/operate"
	"github.com/windlass-go/windlass/statemachine"
)

// Sizes of BenchmarkLists.
const (
	listedTasks   = 100_000
	listCallers   = 10
	listsOfOne    = 100 // of each caller
	listResultLen = 100
)

// serving runs the program with its standard error on standard output, until standard
// input ends. Its arguments are the command.
const serving = `exec 3<&0
{ cat <&3; kill $$; } >/dev/null 2>&1 &
exec "$@" </dev/null 2>&1`

// serve returns the command of a server of the program, built from this repository.
func serve(b *testing.B, args ...string) *exec.Cmd {
	program := filepath.Join(b.TempDir(), "windlass")
	build := exec.Command("go", "build", "-o", program, "./cmd/windlass")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return exec.Command("/bin/sh", append([]string{"-c", serving, "serve", program, "serve"}, args...)...)
}

// BenchmarkLists reports time and memory of "windlass serve", in a process of its own,
// while ten callers at once list a hundred thousand ended tasks: the first one
// repeatedly, all of them page by page, and those of one status.
func BenchmarkLists(b *testing.B) {
	for range b.N {
		l := startLists(b)
		idle := l.settled(b)
		b.ReportMetric(float64(idle)/1e6, "idle-MB")
		for _, kind := range []struct {
			name string
			run  func(ask func(query string) (next string))
		}{
			{"one", func(ask func(string) string) {
				for range listsOfOne {
					ask("limit=1")
				}
			}},
			{"pages", func(ask func(string) string) {
				for next := ask(""); next != ""; next = ask(next) {
				}
			}},
			{"failed", func(ask func(string) string) {
				for range listsOfOne {
					ask("status=failed&limit=1000")
				}
			}},
		} {
			median, most, peak := l.measure(b, kind.run)
			b.ReportMetric(median.Seconds()*1e3, kind.name+"-ms")
			b.ReportMetric(most.Seconds()*1e3, kind.name+"-ms-p99")
			b.ReportMetric(float64(peak-idle)/1e6, kind.name+"-MB-above-idle")
		}
		l.end(b)
	}
}

// lists is a server and its store.
type lists struct {
	etcd   *etcdCluster
	server *child
	url    string
	tokens []string
}

func startLists(b *testing.B) *lists {
	l := &lists{etcd: startEtcd(b, 1)}
	fillStates(b, l.etcd.endpoints)
	var lines strings.Builder
	for i := range listCallers {
		token := api.NewToken()
		line, err := api.TokenLine(api.RoleView, fmt.Sprintf("caller-%d", i), token)
		must(b, err)
		l.tokens = append(l.tokens, token)
		fmt.Fprintln(&lines, line)
	}
	file := filepath.Join(b.TempDir(), "tokens")
	must(b, os.WriteFile(file, []byte(lines.String()), 0o600))
	serving := make(chan string, 1)
	args := []string{"--broker", strings.Replace(l.etcd.endpoints[0], "http://", "etcd://", 1), "--listen", "127.0.0.1:0", "--token-file", file}
	l.server = startChild(b, serve(b, args...), func(line []byte) {
		if url, ok := strings.CutPrefix(string(line), "serving "); ok {
			serving <- url
		}
	})
	select {
	case l.url = <-serving:
	case <-l.server.over:
		b.Fatal(l.server.err)
	}
	return l
}

// fillStates writes ended tasks, one in a hundred of which has failed.
func fillStates(b *testing.B, endpoints []string) {
	store := openEtcd(b, etcd.Config{Endpoints: endpoints})
	client := newClient(b, store)
	must(b, operate.New(client).Init(b.Context()))
	at := time.Now().UTC().Add(-time.Hour)
	result, err := json.Marshal(strings.Repeat("r", listResultLen))
	must(b, err)
	for from := 0; from < listedTasks; from += 1000 {
		txns := make([]broker.Txn, 1000)
		for i := range txns {
			record := statemachine.Record{State: statemachine.Completed, Type: "report", SubmittedAt: &at, Node: "node-1", Token: int64(from + i + 1), ClaimedAt: &at,
				ChangedAt: &at, Result: result}
			if i%100 == 0 {
				record.State, record.Errors = statemachine.Failed, []statemachine.ErrorEntry{{Timestamp: at, Error: "no route to host"}}
			}
			value, err := record.Encode()
			must(b, err)
			id := fmt.Sprintf("report-%08x", rand.Uint32())
			txns[i] = broker.Txn{Then: []broker.Op{broker.Put(fmt.Sprintf("/%s/state/%s-%d", strings.Trim(windlass.NamespaceDefault, "/"), id, from+i), value)}}
		}
		commitAll(b, store, txns)
	}
	must(b, store.Close())
}

// settled waits until the server has read everything and is idle, and returns its memory.
func (l *lists) settled(b *testing.B) (bytes int64) {
	poll(time.Second, func() bool { return l.count(b) == listedTasks })
	<-time.After(collected)
	return memoryIn(b, l.server.pid(), "VmRSS")
}

// collected is the time after which an idle process has returned unused memory: it
// collects garbage after two minutes.
const collected = 3 * time.Minute

func (l *lists) count(b *testing.B) (sum int) {
	var counts map[string]int
	must(b, json.Unmarshal(l.get(b, http.DefaultClient, 0, "/v1/count").body, &counts))
	for _, n := range counts {
		sum += n
	}
	return sum
}

type answered struct {
	body []byte
	link string
}

func (l *lists) get(b *testing.B, client *http.Client, caller int, path string) answered {
	for {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, l.url+path, nil)
		must(b, err)
		r.Header.Set("Authorization", "Bearer "+l.tokens[caller])
		response, err := client.Do(r)
		must(b, err)
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close() // it was read
		switch {
		case err != nil:
			b.Fatal(err)
		case response.StatusCode == http.StatusTooManyRequests:
			<-time.After(time.Second)
		case response.StatusCode != http.StatusOK:
			b.Fatalf("%s: %s: %s", path, response.Status, body)
		default:
			return answered{body, response.Header.Get("Link")}
		}
	}
}

var nextPage = regexp.MustCompile(`^<.*/v1/tasks\?(.*)>; rel="next"$`)

// measure lets all callers ask at once, and returns how long answers took and the peak of
// the server's memory.
func (l *lists) measure(b *testing.B, run func(ask func(query string) string)) (median, p99 time.Duration, peak int64) {
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", l.server.pid()), []byte("5"), 0o600); err != nil { // forgets the peak before
		b.Fatal(err)
	}
	var mu sync.Mutex
	var took []time.Duration
	var asking sync.WaitGroup
	for caller := range listCallers {
		asking.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			run(func(query string) (next string) {
				began := time.Now()
				a := l.get(b, client, caller, "/v1/tasks?"+query)
				mu.Lock()
				defer mu.Unlock()
				took = append(took, time.Since(began))
				if m := nextPage.FindStringSubmatch(a.link); m != nil {
					return m[1]
				}
				return ""
			})
		})
	}
	asking.Wait()
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100], memoryIn(b, l.server.pid(), "VmHWM")
}

// memoryIn returns a field of a process's memory, in bytes.
func memoryIn(b *testing.B, pid int, field string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Skip(err) // not on Linux
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) == 3 && words[0] == field+":" {
			kb, err := strconv.ParseInt(words[1], 10, 64)
			must(b, err)
			return kb << 10
		}
	}
	b.Fatalf("there is no %s", field)
	return 0
}

func (l *lists) end(b *testing.B) {
	must(b, errors.Join(l.server.close(), l.etcd.close()))
}
