package tools

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// expressions are those of the alerts and of the dashboard, by where they are.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr, For string }
		}
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	alerts, err := os.ReadFile("../deploy/prometheus/windlass.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(alerts, &rules); err != nil {
		t.Fatal(err)
	}
	panels, err := os.ReadFile("../deploy/grafana/windlass.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(panels, &board); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			found[r.Alert] = r.Expr
			if _, err := time.ParseDuration(r.For); r.For != "" && err != nil {
				t.Errorf("%s: %v", r.Alert, err)
			}
		}
	}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			// What Grafana puts in before it asks.
			found[p.Title+": "+target.Expr] = strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*", "$ns", ".*").Replace(target.Expr)
		}
	}
	return found
}

func TestExpressions_AreReadByPrometheus(t *testing.T) {
	found := expressions(t)
	if len(found) < 40 {
		t.Errorf("there are only %d expressions", len(found))
	}
	p := parser.NewParser(parser.Options{})
	for where, expression := range found {
		if _, err := p.ParseExpr(expression); err != nil {
			t.Errorf("%s: %v", where, err)
		}
	}
	if _, err := p.ParseExpr("sum(rate(x))"); err == nil {
		t.Error("it reads what makes no sense")
	}
}
