package metrics_test

import (
	"context"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"sigs.k8s.io/yaml"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/observe/metrics"
)

// served returns the names of all series of a node and a server, with the suffixes of
// histograms, and the labels of each.
func served(t *testing.T) map[string][]string {
	t.Helper()
	names := map[string][]string{}
	inFleet(t, func(f *fleet) {
		n := f.join("n1")
		f.submit("x", "a")
		f.says(n, 1, "windlass_node_tasks", "state=running")
		n.broker.Cut() // so that there are errors
		f.says(n, 1, "windlass_store_errors_total")
		n.broker.Heal()
		f.says(n, 1, "windlass_nodes_joined")
		must(t, f.client.Delete(f.Context(), "a"))
		f.says(n, 1, "windlass_run_seconds")
		f.says(n, 0, "windlass_watch_lag_revisions")
		server := newMetrics(t, metrics.Config{Space: func(context.Context) (used, quota int64, err error) { return 1, 2, nil }})
		server.Count(func() map[windlass.Status]int { return map[windlass.Status]int{windlass.StatusPending: 1} })
		for _, m := range []*metrics.Metrics{n.metrics, server} {
			families, err := m.Gatherer().Gather()
			must(t, err)
			for _, family := range families {
				var labels []string
				for _, l := range family.GetMetric()[0].GetLabel() {
					labels = append(labels, l.GetName())
				}
				if family.GetType() != dto.MetricType_HISTOGRAM {
					names[family.GetName()] = labels
					continue
				}
				for _, suffix := range []string{"_sum", "_count"} {
					names[family.GetName()+suffix] = labels
				}
				names[family.GetName()+"_bucket"] = append(labels, "le")
			}
		}
	})
	return names
}

var (
	metricName = regexp.MustCompile(`\b(?:windlass|go|process)_[a-z_]+`)
	selector   = regexp.MustCompile(`\b(windlass_[a-z_]+)\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
)

// unknown returns the names in an expression that are not served, or lack a label that it
// uses.
func unknown(expression string, served map[string][]string) (problems []string) {
	for _, name := range metricName.FindAllString(expression, -1) {
		if _, there := served[name]; !there {
			problems = append(problems, name)
		}
	}
	for _, m := range selector.FindAllStringSubmatch(expression, -1) {
		for _, label := range matcher.FindAllStringSubmatch(m[2], -1) {
			if label[1] != "instance" && !slices.Contains(served[m[1]], label[1]) {
				problems = append(problems, m[1]+"{"+label[1]+"}")
			}
		}
	}
	return problems
}

// rules is a file of alerts.
type rules struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []struct {
			Alert       string            `json:"alert"`
			Expr        string            `json:"expr"`
			For         string            `json:"for"`
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"rules"`
	} `json:"groups"`
}

// dashboard has the checked parts of a dashboard.
type dashboard struct {
	UID    string `json:"uid"`
	Panels []struct {
		ID      int            `json:"id"`
		Type    string         `json:"type"`
		Title   string         `json:"title"`
		GridPos map[string]int `json:"gridPos"`
		Targets []struct {
			Expr string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
	Templating struct {
		List []struct {
			Definition string `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	return content
}

func TestDeploy_EveryMetricOfTheAlertsTheDashboardAndTheDocumentsIsServed(t *testing.T) {
	there := served(t)
	var alerts rules
	must(t, yaml.UnmarshalStrict(read(t, "../testdata/root/deploy/prometheus/windlass.rules.yml"), &alerts))
	document := string(read(t, "../testdata/root/docs/operate/operations.md"))
	for _, g := range alerts.Groups {
		for _, r := range g.Rules {
			if problems := unknown(r.Expr, there); len(problems) > 0 || r.Expr == "" {
				t.Errorf("%s asks for %q", r.Alert, problems)
			}
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || !strings.Contains(document, "`"+r.Alert+"`") {
				t.Errorf("%s says not how bad it is, what, or is not in docs/operate/operations.md", r.Alert)
			}
		}
	}
	if len(alerts.Groups) != 1 || len(alerts.Groups[0].Rules) < 12 {
		t.Errorf("the alerts are %+v", alerts)
	}
	var board dashboard
	must(t, json.Unmarshal(read(t, "../testdata/root/deploy/grafana/windlass.json"), &board))
	ids, shown := map[int]bool{}, ""
	for _, p := range board.Panels {
		if ids[p.ID] || p.Title == "" || p.GridPos["x"]+p.GridPos["w"] > 24 || (p.Type != "row") != (len(p.Targets) > 0) {
			t.Errorf("the panel %d, %q, is there twice, has no title, is too wide, or shows nothing", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			shown += target.Expr + "\n"
			if problems := unknown(target.Expr, there); len(problems) > 0 || target.Expr == "" {
				t.Errorf("the panel %q asks for %q", p.Title, problems)
			}
		}
	}
	for _, v := range board.Templating.List {
		if problems := unknown(v.Definition, there); len(problems) > 0 {
			t.Errorf("a variable asks for %q", problems)
		}
	}
	_, table, _ := strings.Cut(document, "\n## Metrics\n")
	table, _, _ = strings.Cut(table, "\n### Alerts\n")
	for name := range there {
		name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		if strings.HasPrefix(name, "windlass_") && !strings.Contains(table, "`"+name) {
			t.Errorf("docs/operate/operations.md has no %s", name)
		}
		if strings.HasPrefix(name, "windlass_") && name != "windlass_nodes" && !strings.Contains(shown, name) {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
	for _, name := range metricName.FindAllString(table, -1) {
		_, plain := there[name]
		_, histogram := there[name+"_count"]
		if strings.HasPrefix(name, "windlass_") && !plain && !histogram {
			t.Errorf("docs/operate/operations.md has %s, which nobody serves", name)
		}
	}
}

// Services share a Prometheus: what one of them does is neither added to another's nor said of
// all.
func TestDeploy_EveryMetricAlertAndPanelIsThatOfANamespace(t *testing.T) {
	for name, labels := range served(t) {
		if strings.HasPrefix(name, "windlass_") != slices.Contains(labels, "ns") {
			t.Errorf("%s has the labels %q", name, labels)
		}
	}
	aggregation := regexp.MustCompile(`\b(?:sum|min|max|avg|group|count) *(?:by \(([^)]*)\) *)?\(`)
	var alerts rules
	must(t, yaml.UnmarshalStrict(read(t, "../testdata/root/deploy/prometheus/windlass.rules.yml"), &alerts))
	for _, r := range alerts.Groups[0].Rules {
		for _, m := range aggregation.FindAllStringSubmatch(r.Expr, -1) {
			if !slices.Contains(strings.Split(m[1], ", "), "ns") {
				t.Errorf("%s forgets the namespace in %q", r.Alert, m[0])
			}
		}
		if !strings.Contains(r.Expr, "windlass_") {
			t.Errorf("%s has no namespace", r.Alert)
		}
	}
	var board dashboard
	must(t, json.Unmarshal(read(t, "../testdata/root/deploy/grafana/windlass.json"), &board))
	series := regexp.MustCompile(`windlass_[a-z_]+(\{ns=~"\$ns")?`)
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			for _, m := range series.FindAllStringSubmatch(target.Expr, -1) {
				if m[1] == "" {
					t.Errorf("the panel %q shows %s of all namespaces", p.Title, m[0])
				}
			}
		}
	}
}

// Every instance serves all tasks of its namespace: a sum counts each task once for each
// instance, and a maximum over several namespaces is that of one of them.
func TestDeploy_TheDashboardCountsEachTaskOfEachNamespaceOnce(t *testing.T) {
	var board dashboard
	must(t, json.Unmarshal(read(t, "../testdata/root/deploy/grafana/windlass.json"), &board))
	once := regexp.MustCompile(`^sum(?: by \(state\))? \(max by \(ns(?:, state)?\) \(windlass_tasks\{[^}]*\}\)\)$`)
	seen := 0
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			if !strings.Contains(target.Expr, "windlass_tasks{") {
				continue
			}
			if seen++; !once.MatchString(strings.Replace(target.Expr, "sum(", "sum (", 1)) {
				t.Errorf("%q asks for %s", p.Title, target.Expr)
			}
		}
	}
	if seen != 3 {
		t.Errorf("%d panels show tasks of namespaces", seen)
	}
}

func TestDeploy_TheCheckOfExpressionsFails(t *testing.T) {
	there := map[string][]string{"windlass_a": {"x"}, "windlass_b_bucket": {"le"}}
	for _, bad := range []string{"windlass_c", "rate(windlass_b[5m])", `windlass_a{y="1"}`, `sum(windlass_a) / windlass_aa`} {
		if len(unknown(bad, there)) == 0 {
			t.Errorf("%s is let through", bad)
		}
	}
	if problems := unknown(`windlass_a{x="1",instance=~"$i"} + rate(windlass_b_bucket{le="1"}[5m])`, there); len(problems) > 0 {
		t.Errorf("what is served is %q", problems)
	}
}
