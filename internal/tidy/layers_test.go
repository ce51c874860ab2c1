package tidy_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layers says what each package of the module may import of the module. It is a
// statement of policy: imports point down only. A package that is not listed
// may not exist.
var layers = map[string][]string{
	// Vocabulary and the pure parts.
	"broker": {}, "statemachine": {"internal/stored"}, "placement": {"internal/heap"}, "internal/heap": {},
	"internal/shorten": {}, "internal/keys": {"internal/shorten"}, "internal/depend": {}, "internal/clock": {}, "internal/cgroup": {}, "internal/runner": {}, "internal/stored": {},
	// Adapters, which do not know each other.
	"broker/brokertest":              {"broker"},
	"broker/memory":                  {"broker"},
	"broker/faulty":                  {"broker"},
	"broker/internal/waves":          {"broker"},
	"broker/etcd":                    {"broker", "broker/internal/waves", "broker/etcd/internal/zaplog"},
	"broker/etcd/embedded":           {"broker", "broker/etcd", "broker/etcd/internal/zaplog"},
	"broker/etcd/internal/zaplog":    {},
	"broker/zookeeper":               {"broker", "broker/internal/waves", "broker/zookeeper/internal/wire", "internal/clock"},
	"broker/zookeeper/internal/wire": {},
	"broker/zookeeper/zktest":        {},
	"internal/zksuite":               {"broker", "broker/zookeeper", "broker/zookeeper/zktest"},
	// Machinery.
	"session":           {"broker", "internal/clock"},
	"internal/mirror":   {"broker", "internal/keys"},
	"internal/kind":     {"broker", "placement", "internal/keys", "internal/depend", "internal/mirror"},
	"internal/schedule": {"broker", "placement", "internal/heap", "internal/kind", "internal/mirror"},
	"internal/layout":   {"broker", "internal/keys"},
	"election":          {"broker", "session", "internal/keys", "internal/clock", "internal/layout"},
	"coordinator":       {"broker", "statemachine", "internal/keys", "internal/mirror"},
	"internal/outbox":   {"coordinator"},
	// The node with its client. It imports no adapter.
	".": {"broker", "statemachine", "placement", "session", "coordinator", "election",
		"internal/keys", "internal/kind", "internal/schedule", "internal/depend", "internal/runner", "internal/mirror", "internal/layout", "internal/outbox", "internal/stored", "internal/shorten", "internal/heap"},
	// Edges: they import no store but windlasstest's; tree is built on the node's machinery as well.
	"balancer":          {"."},
	"metrics":           {".", "broker", "coordinator", "election", "session"},
	"tracing":           {"."},
	"tree":              {".", "broker", "statemachine", "coordinator", "internal/keys", "internal/depend", "internal/mirror", "internal/shorten"},
	"internal/exectask": {".", "session", "internal/cgroup", "internal/clock"},
	"windlasstest":      {".", "broker", "broker/faulty", "broker/memory", "internal/clock"},
	// What checks a whole cluster.
	"internal/history": {"broker", "statemachine", "internal/keys", "internal/depend"},
	"internal/simulation": {".", "broker", "broker/faulty", "broker/etcd", "broker/etcd/embedded", "coordinator", "election", "session", "statemachine",
		"windlasstest", "internal/clock", "internal/doctor", "internal/history", "internal/keys"},
	// Wiring.
	"internal/doctor": {".", "broker", "coordinator", "session", "statemachine",
		"internal/clock", "internal/depend", "internal/keys", "internal/layout", "internal/mirror"},
	"internal/view":    {".", "election", "statemachine", "tree"},
	"internal/orders":  {".", "statemachine", "internal/view"},
	"internal/conns":   {},
	"dashboard":        {},
	"api":              {".", "broker", "dashboard", "election", "statemachine", "tree", "internal/conns", "internal/orders", "internal/shorten", "internal/view"},
	"internal/loadgen": {".", "broker", "coordinator", "session", "tree", "internal/keys"},
	"internal/top":     {".", "broker", "election", "statemachine", "tree", "internal/keys", "internal/view"},
	"internal/cli": {".", "api", "balancer", "broker", "broker/etcd", "broker/etcd/embedded", "broker/zookeeper", "election", "session", "statemachine", "tree",
		"internal/conns", "internal/doctor", "internal/exectask", "internal/keys", "internal/loadgen", "internal/orders", "internal/top", "internal/view", "metrics", "tracing"},
	"cmd/windlass": {"internal/cli"},
	// Examples are programs of users: the public face and the adapters only.
	"examples/poller":  {".", "broker", "broker/etcd", "broker/etcd/embedded", "statemachine"},
	"examples/sources": {".", "broker", "broker/etcd/embedded", "tree"},
	// The benchmarks, a module of its own, which has no code but tests.
	"bench": {},
	// Tests of whole clusters, and of the project itself; they have no code but tests.
	"internal/integration": {}, "internal/tidy": {},
	// Tests of the built program; they contain none of our code.
	"internal/testprogram": {},
	"internal/acceptance":  {}, "internal/browsertest": {}, "internal/tmuxtest": {}, "deploy": {},
}

func layerCheck(s source) (problems []string) {
	if s.test {
		return nil
	}
	allowed, listed := layers[s.pkg]
	if !listed {
		return []string{fmt.Sprintf("%s: package %s is not in the list of layers", s.path, s.pkg)}
	}
	for _, spec := range s.file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil || (path != module && !strings.HasPrefix(path, module+"/")) {
			continue
		}
		of := strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
		if of == "" {
			of = "."
		}
		if !slices.Contains(allowed, of) {
			problems = append(problems, fmt.Sprintf("%s: package %s may not import %s", s.path, s.pkg, of))
		}
	}
	return problems
}

func TestTidy_ImportsPointDownOnly(t *testing.T) { check(t, layerCheck) }

func TestTidy_LayerCheckFails(t *testing.T) {
	up := fmt.Sprintf("package session\nimport _ %q\n", module+"/coordinator")
	down := fmt.Sprintf("package session\nimport _ %q\n", module+"/broker")
	failsOn(t, layerCheck, "session/x.go", up, down)
	if s, err := parse("nowhere/x.go", "package nowhere\n"); err != nil || len(layerCheck(s)) != 1 {
		t.Errorf("a package that is not listed is accepted (%v)", err)
	}
}

// forbidden is what importing the library must not pull in, and what lets a user
// see that it does.
var forbidden = map[string]string{
	"go.etcd.io/":                   "etcd, server or client",
	"google.golang.org/grpc":        "gRPC",
	"github.com/spf13/":             "a command line",
	"github.com/prometheus/":        "a metrics registry",
	"github.com/danielgtaylor/huma": "an HTTP framework",
	"go.opentelemetry.io/":          "tracing",
	"go.uber.org/zap":               "a logger",
	"charm.land/":                   "a terminal's screen",
	"net/http":                      "an HTTP server",
}

func TestTidy_TheLibraryPullsInNoServerCommandLineOrMetrics(t *testing.T) {
	sources(t) // the result of this test depends on every file; reading them tells the test cache
	for _, pkg := range []string{".", "./tree", "./balancer", "./session", "./coordinator", "./election"} {
		out, err := exec.Command("go", "list", "-deps", pkg).Output()
		if err != nil {
			t.Fatal(err)
		}
		deps := strings.Fields(string(out))
		if len(deps) < 50 {
			t.Fatalf("%s has only %d dependencies; the list is not what it should be", pkg, len(deps))
		}
		for _, dep := range deps {
			for prefix, what := range forbidden {
				if dep == prefix || strings.HasPrefix(dep, strings.TrimSuffix(prefix, "/")+"/") {
					t.Errorf("%s pulls in %s: %s", pkg, what, dep)
				}
			}
		}
	}
}

// peerModules are what is compared with, and what that needs. Whoever imports the
// library gets none of it, not even into go.sum.
var peerModules = []string{
	"github.com/riverqueue/", "github.com/hibiken/asynq", "github.com/jackc/", "github.com/redis/",
}

// peerCheck finds peers in the text of a go.mod or a go.sum.
func peerCheck(name, text string) (problems []string) {
	for line := range strings.Lines(text) {
		for _, peer := range peerModules {
			if strings.Contains(line, peer) {
				problems = append(problems, fmt.Sprintf("%s: %s belongs into the module bench", name, strings.TrimSpace(line)))
			}
		}
	}
	return problems
}

func TestTidy_TheLibraryRequiresNoPeer(t *testing.T) {
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		report(t, peerCheck(name, string(text)))
	}
}

func TestTidy_PeerCheckFails(t *testing.T) {
	if len(peerCheck("go.mod", "\tgithub.com/riverqueue/river v0.51.1\n")) != 1 || len(peerCheck("go.mod", "\tgo.etcd.io/bbolt v1.5.0\n")) != 0 {
		t.Error("it does not tell a peer from a part of the library")
	}
	text, err := os.ReadFile("bench/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if len(peerCheck("bench/go.mod", string(text))) < len(peerModules)-1 { // some are needed by others only
		t.Error("it does not know the peers that are there")
	}
}
