package tidy_test

import (
	"fmt"
	"io/fs"
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
	"broker": {}, "statemachine": {"internal/invalid", "internal/stored"}, "placement": {"internal/heap"}, "internal/heap": {},
	"internal/shorten": {}, "internal/invalid": {"internal/shorten"}, "internal/changes": {}, "internal/keys": {"internal/invalid", "internal/shorten"}, "internal/depend": {"internal/shorten"}, "internal/clock": {}, "cmd/windlass/internal/cgroup": {}, "internal/runner": {}, "internal/stored": {"internal/shorten"}, "internal/pause": {}, "internal/meter": {}, "internal/sessionkey": {"broker"},
	// Adapters, which do not know each other.
	"broker/brokertest":                        {"broker"},
	"broker/memory":                            {"broker"},
	"broker/faulty":                            {"broker", "broker/internal/batches", "internal/pause"},
	"broker/internal/batches":                  {"broker"},
	"broker/etcd":                              {"broker", "broker/internal/batches", "broker/etcd/internal/zaplog", "internal/pause", "internal/sessionkey"},
	"broker/etcd/embedded/internal/drivertest": {},
	"broker/etcd/embedded":                     {"broker", "broker/etcd", "broker/etcd/internal/zaplog"},
	"broker/etcd/internal/zaplog":              {},
	"broker/zookeeper":                         {"broker", "broker/internal/batches", "broker/zookeeper/internal/wire", "internal/clock", "internal/pause", "internal/shorten", "statemachine"},
	"broker/zookeeper/internal/wire":           {},
	"broker/zookeeper/zktest":                  {},
	"internal/zksuite":                         {"broker", "broker/zookeeper", "broker/zookeeper/zktest"},
	// Machinery.
	"session":              {"broker", "internal/clock", "internal/pause", "internal/sessionkey"},
	"internal/mirror":      {"broker", "internal/depend", "internal/keys", "internal/pause"},
	"internal/kind":        {"broker", "placement", "internal/keys", "internal/depend", "internal/mirror"},
	"internal/schedule":    {"broker", "events", "placement", "internal/depend", "internal/keys", "internal/heap", "internal/kind", "internal/mirror"},
	"internal/waiting":     {"internal/depend", "internal/kind", "internal/mirror"},
	"internal/deaths":      {"broker", "coordinator", "internal/keys", "internal/mirror"},
	"events":               {"session", "internal/deaths"},
	"internal/returns":     {},
	"internal/life":        {"statemachine"},
	"internal/layout":      {"broker", "internal/keys"},
	"internal/subtree":     {"broker", "internal/depend", "internal/keys"},
	"internal/results":     {"broker", "statemachine", "internal/keys"},
	"election":             {"broker", "session", "internal/invalid", "internal/keys", "internal/layout", "internal/mirror", "internal/pause"},
	"coordinator":          {"broker", "statemachine", "internal/depend", "internal/keys", "internal/mirror", "internal/subtree"},
	"internal/outbox":      {"coordinator"},
	"internal/attempts":    {"broker", "coordinator", "internal/pause"},
	"internal/nodecommand": {"internal/invalid", "internal/schedule", "internal/shorten", "internal/stored"},
	"internal/listing":     {"broker", "coordinator", "statemachine", "internal/attempts", "internal/depend", "internal/keys", "internal/kind", "internal/mirror", "internal/subtree", "internal/waiting"},
	"internal/edit":        {"broker", "coordinator", "session", "statemachine", "internal/attempts", "internal/changes", "internal/depend", "internal/invalid", "internal/keys", "internal/meter", "internal/pause", "internal/shorten", "internal/stored", "internal/subtree"},
	"internal/journal":     {"coordinator", "statemachine", "internal/edit", "internal/life", "internal/mirror", "internal/outbox"},
	// The node with its client. It imports no adapter.
	".": {"broker", "events", "statemachine", "placement", "session", "coordinator", "election",
		"internal/attempts", "internal/deaths", "internal/edit", "internal/invalid", "internal/journal", "internal/keys", "internal/kind", "internal/schedule", "internal/depend", "internal/runner", "internal/mirror", "internal/nodecommand", "internal/listing", "internal/layout", "internal/life", "internal/meter", "internal/outbox", "internal/pause", "internal/results", "internal/returns", "internal/stored", "internal/shorten", "internal/subtree", "internal/heap"},
	// Edges: they import no store but windlasstest's; tree is built on the node's machinery as well.
	"operate":        {".", "broker", "events", "session", "internal/attempts", "internal/deaths", "internal/invalid", "internal/keys", "internal/layout", "internal/mirror", "internal/nodecommand", "internal/shorten"},
	"internal/specs": {".", "broker", "placement", "internal/kind"},
	"inspect": {".", "broker", "coordinator", "placement", "statemachine", "internal/deaths", "internal/depend", "internal/keys", "internal/kind", "internal/mirror",
		"internal/returns", "internal/schedule", "internal/shorten", "internal/specs"},
	"lease":                          {".", "broker", "coordinator", "events", "session", "statemachine", "internal/attempts", "internal/invalid", "internal/keys", "internal/kind", "internal/layout", "internal/mirror", "internal/specs"},
	"balancer":                       {".", "events"},
	"observe/metrics":                {".", "broker", "coordinator", "events", "election", "session", "internal/stamp"},
	"observe/tracing":                {"events"},
	"tree":                           {".", "operate", "broker", "statemachine", "coordinator", "internal/keys", "internal/depend", "internal/meter", "internal/mirror", "internal/shorten", "internal/pause"},
	"cmd/windlass/internal/exectask": {".", "session", "cmd/windlass/internal/cgroup", "internal/clock", "internal/pause", "internal/shorten", "statemachine"},
	"windlasstest":                   {".", "events", "broker", "broker/faulty", "broker/memory", "internal/clock"},
	// What checks a whole cluster.
	"cmd/windlass/internal/history": {"broker", "statemachine", "internal/keys", "internal/depend"},
	"cmd/windlass/internal/simulation": {".", "events", "inspect", "lease", "operate", "broker", "broker/faulty", "broker/etcd", "broker/etcd/embedded", "coordinator", "election", "session", "statemachine",
		"windlasstest", "internal/clock", "cmd/windlass/internal/doctor", "cmd/windlass/internal/history", "internal/depend", "internal/keys"},
	// Wiring.
	"cmd/windlass/internal/doctor": {".", "events", "inspect", "broker", "coordinator", "session", "statemachine", "internal/shorten", "internal/view",
		"internal/deaths", "internal/depend", "internal/keys", "internal/kind", "internal/layout", "internal/mirror", "internal/nodecommand", "internal/pause", "internal/returns"},
	"internal/stamp":                {},
	"internal/view":                 {".", "inspect", "lease", "election", "statemachine", "tree", "internal/changes", "internal/depend", "internal/shorten", "internal/stamp", "internal/stored"},
	"internal/commands":             {".", "statemachine", "internal/depend", "internal/meter", "internal/view"},
	"internal/conns":                {},
	"cmd/windlass/internal/repeats": {"broker"},
	"api/dashboard":                 {},
	"api":                           {".", "broker", "events", "inspect", "lease", "operate", "api/dashboard", "election", "statemachine", "tree", "internal/conns", "internal/commands", "internal/shorten", "internal/stored", "internal/view"},
	"cmd/windlass/internal/loadgen": {".", "events", "broker", "coordinator", "session", "tree", "internal/keys", "internal/pause"},
	"cmd/windlass/internal/top":     {".", "inspect", "operate", "broker", "election", "statemachine", "tree", "internal/keys", "internal/commands", "internal/view", "internal/pause", "internal/shorten"},
	"cmd/windlass/internal/cli": {".", "events", "inspect", "lease", "operate", "api", "balancer", "broker", "broker/etcd", "broker/etcd/embedded", "broker/zookeeper", "election", "session", "statemachine", "tree",
		"internal/conns", "cmd/windlass/internal/doctor", "cmd/windlass/internal/exectask", "internal/keys", "cmd/windlass/internal/loadgen", "cmd/windlass/internal/repeats", "internal/commands", "internal/meter", "internal/pause", "internal/shorten", "internal/stored", "cmd/windlass/internal/top", "internal/view", "observe/metrics", "observe/tracing"},
	"cmd/windlass": {"cmd/windlass/internal/cli"},
	// Examples are programs of users: the public face and the adapters only.
	"examples/poller":  {".", "events", "broker", "broker/etcd", "broker/etcd/embedded", "statemachine"},
	"examples/sources": {".", "broker", "broker/etcd/embedded", "tree"},
	// The benchmarks, a module of its own, which has no code but tests.
	"bench": {},
	// Tests of whole clusters, and of the project itself; they have no code but tests.
	"cmd/windlass/internal/integration": {}, "cmd/windlass/internal/tidy": {},
	// Tests of the built program; they contain none of our code.
	"cmd/windlass/internal/testprogram": {},
	"cmd/windlass/internal/acceptance":  {}, "cmd/windlass/internal/browsertest": {}, "cmd/windlass/internal/tmuxtest": {}, "cmd/windlass/internal/deploytest": {},
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
	"github.com/riverqueue/":        "a queue to compare with",
	"github.com/chromedp/":          "a browser",
}

func TestTidy_TheLibraryPullsInNoServerCommandLineOrMetrics(t *testing.T) {
	sources(t) // the result of this test depends on every file; reading them tells the test cache
	for _, pkg := range []string{".", "./events", "./inspect", "./lease", "./operate", "./tree", "./balancer", "./session", "./coordinator", "./election"} {
		list := exec.Command("go", "list", "-deps", pkg)
		list.Dir = top
		out, err := list.Output()
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

// requiresMax limits what the library's module requires directly.
const requiresMax = 10

// requireCheck finds what the go.mod of the library should not require.
func requireCheck(text string) (problems []string) {
	direct := 0
	for line := range strings.Lines(text) {
		path, _, ok := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "require ")), " v")
		if !ok {
			continue
		}
		if !strings.Contains(line, "// indirect") {
			direct++
		}
		for prefix, what := range forbidden {
			if strings.HasPrefix(path+"/", strings.TrimSuffix(prefix, "/")+"/") {
				problems = append(problems, fmt.Sprintf("go.mod requires %s: %s", path, what))
			}
		}
	}
	if direct > requiresMax {
		problems = append(problems, fmt.Sprintf("go.mod requires %d modules directly; the limit is %d", direct, requiresMax))
	}
	return problems
}

func TestTidy_TheLibraryRequiresLittle(t *testing.T) {
	text, err := fs.ReadFile(project, "go.mod")
	if err != nil {
		t.Fatal(err)
	}
	report(t, requireCheck(string(text)))
}

func TestTidy_RequireCheckFails(t *testing.T) {
	few := "require go.uber.org/goleak v1.3.0\n"
	if got := requireCheck(few + "require (\n\tgo.etcd.io/etcd/api/v3 v3.7.3 // indirect\n)\n"); len(got) != 1 {
		t.Errorf("of an etcd it says %q", got)
	}
	if got := requireCheck(strings.Repeat(few, requiresMax+1)); len(got) != 1 {
		t.Errorf("of too many it says %q", got)
	}
	if got := requireCheck(few); len(got) != 0 {
		t.Errorf("of what is needed it says %q", got)
	}
}
