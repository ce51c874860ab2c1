package windlass_test

import (
	"fmt"
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
	"broker": {}, "statemachine": {}, "placement": {},
	"internal/keys": {}, "internal/depend": {}, "internal/clock": {}, "internal/runner": {},
	// Adapters, which do not know each other.
	"broker/brokertest":              {"broker"},
	"broker/memory":                  {"broker"},
	"broker/faulty":                  {"broker"},
	"broker/internal/waves":          {"broker"},
	"broker/etcd":                    {"broker", "broker/internal/waves", "broker/etcd/internal/zaplog"},
	"broker/etcd/embedded":           {"broker", "broker/etcd", "broker/etcd/internal/zaplog"},
	"broker/etcd/internal/zaplog":    {},
	"broker/zookeeper":               {"broker", "broker/internal/waves", "broker/zookeeper/internal/wire"},
	"broker/zookeeper/internal/wire": {},
	"broker/zookeeper/zktest":        {},
	"internal/zksuite":               {"broker", "broker/zookeeper", "broker/zookeeper/zktest"},
	// Machinery.
	"session":         {"broker", "internal/clock"},
	"internal/mirror": {"broker", "internal/keys"},
	"internal/layout": {"broker", "internal/keys"},
	"election":        {"broker", "session", "internal/keys", "internal/clock", "internal/layout"},
	"coordinator":     {"broker", "statemachine", "internal/keys", "internal/mirror"},
	// The node with its client. It imports no adapter.
	".": {"broker", "statemachine", "placement", "session", "coordinator", "election",
		"internal/keys", "internal/depend", "internal/runner", "internal/mirror", "internal/layout"},
	// Edges: what uses only the public face.
	"balancer":          {"."},
	"metrics":           {".", "broker", "coordinator", "election", "session"},
	"tracing":           {"."},
	"tree":              {".", "broker", "statemachine", "coordinator", "internal/keys", "internal/depend", "internal/mirror"},
	"internal/exectask": {".", "session", "internal/clock"},
	"windlasstest":      {".", "broker", "broker/faulty", "broker/memory", "internal/clock"},
	// What checks a whole cluster.
	"internal/history": {"broker", "statemachine", "internal/keys", "internal/depend"},
	"internal/simulation": {".", "broker", "broker/faulty", "broker/etcd/embedded", "coordinator", "election", "session", "statemachine",
		"windlasstest", "internal/clock", "internal/history"},
	// Wiring.
	"internal/doctor": {".", "broker", "coordinator", "session", "statemachine",
		"internal/clock", "internal/depend", "internal/keys", "internal/layout", "internal/mirror"},
	"internal/view":    {".", "election", "statemachine", "tree"},
	"dashboard":        {},
	"api":              {".", "broker", "dashboard", "election", "statemachine", "tree", "internal/view"},
	"internal/loadgen": {".", "broker", "coordinator", "session", "internal/keys"},
	"internal/top":     {".", "broker", "election", "statemachine", "tree", "internal/view"},
	"internal/cli": {".", "api", "balancer", "broker", "broker/etcd", "broker/etcd/embedded", "broker/zookeeper", "election", "session", "statemachine", "tree",
		"internal/doctor", "internal/exectask", "internal/keys", "internal/loadgen", "internal/top", "internal/view", "metrics", "tracing"},
	"cmd/windlass": {"internal/cli"},
	// Examples are programs of users: the public face and the adapters only.
	"examples/poller":  {".", "broker", "broker/etcd", "broker/etcd/embedded", "statemachine"},
	"examples/sources": {".", "broker", "broker/etcd/embedded", "tree"},
	"bench":            {},
	// Tests of the built program; they contain none of our code.
	"internal/acceptance": {}, "internal/browsertest": {}, "internal/tmuxtest": {}, "deploy": {},
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
