//go:build e2e && linux

package acceptance

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// graphs is how many random graphs are submitted, jobsMost how many jobs a graph has at most.
const (
	graphs   = 20
	jobsMost = 80
)

// ordered is a job that leaves a file when it ends, and a word where it begins before one that
// it needs has done so.
type ordered struct {
	name, parent string
	needs        []string
}

const orderedScript = `for need in $NEEDS; do [ -e "done/$need" ] || echo "$NAME before $need" >>early; done; : >"done/$NAME"`

func (o ordered) props(dir string) map[string]any {
	needs := o.needs
	if o.parent != "" {
		needs = append(needs[:len(needs):len(needs)], o.parent)
	}
	return map[string]any{
		"command": []string{"sh", "-c", orderedScript}, "dir": dir,
		"env": map[string]string{"NAME": o.name, "NEEDS": strings.Join(needs, " ")},
	}
}

func (o ordered) task(dir string) any {
	return map[string]any{"id": o.name, "type": "exec", "needs": o.needs, "props": o.props(dir)}
}

// randomJobs makes jobs that need others, in a random order. Those of a tree have parents.
func randomJobs(random *rand.Rand, graph int, inTree bool) []ordered {
	all := make([]ordered, 10+random.IntN(jobsMost-10))
	for i := range all {
		all[i].name = fmt.Sprintf("g%d-%d", graph, i)
		for range random.IntN(4) {
			if i > 0 {
				all[i].needs = append(all[i].needs, all[max(0, i-1-random.IntN(10))].name)
			}
		}
		if above := random.IntN(i + 1); inTree && above < i && all[above].parent == "" && random.IntN(2) == 0 {
			all[i].parent = all[above].name
		}
	}
	random.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	return all
}

// inTree returns the lines of "tree queue -f" for jobs of at most two levels.
func inTree(jobs []ordered, dir string) (lines []any) {
	paths := map[string]string{}
	for _, o := range jobs {
		paths[o.name] = o.name + "_exec"
		if o.parent != "" {
			paths[o.name] = o.parent + "_exec/" + o.name + "_exec"
		}
	}
	for _, o := range jobs {
		line := map[string]any{"name": o.name, "type": "exec", "data": o.props(dir)}
		var needs []string
		for _, need := range o.needs {
			needs = append(needs, paths[need])
		}
		if line["needs"] = needs; o.parent != "" {
			line["parent"] = o.parent + "_exec"
		}
		lines = append(lines, line)
	}
	return lines
}

// TestOrder_M11_…: graphs of commands are submitted in every way, in any order of their lines,
// while nodes run what is there.
func TestOrder_M11_NoCommandBeginsBeforeWhatItNeedsHasEnded(t *testing.T) {
	w := newWorld(t)
	data, address := w.path("data"), freePort(w)
	dev := w.start("dev", "dev", "--nodes", "3", "--data", data, "--listen", address)
	w.eventually(soon, func() string { return w.missingNodes(3) })
	dir := w.path("order")
	must(t, os.MkdirAll(filepath.Join(dir, "done"), 0o700))
	random := rand.New(rand.NewPCG(71, 3))
	jobs := 0
	for graph := range graphs {
		way := graph % 4
		all := randomJobs(random, graph, way == 1)
		var lines []any
		for _, o := range all {
			lines = append(lines, o.task(dir))
		}
		file := fmt.Sprintf("graph-%d.jsonl", graph)
		switch way {
		case 0:
			w.must("task", "submit", "-f", w.writeLines(file, lines))
		case 1:
			w.must("tree", "queue", "-f", w.writeLines(file, inTree(all, dir)))
		case 2:
			w.must("task", "apply", "--yes", "-f", w.writeLines(file, lines))
		case 3:
			w.post("http://"+address+"/v1/submissions", filepath.Join(data, "http-header"), lines)
		}
		jobs += len(all)
	}
	// As in the report: 300 jobs, each of which needs one that comes later in the file.
	var lines []any
	for i := range 300 {
		a, z := ordered{name: fmt.Sprintf("a-%d", i), needs: []string{fmt.Sprintf("z-%d", i)}}, ordered{name: fmt.Sprintf("z-%d", i)}
		lines, jobs = append(append([]any{a.task(dir)}, lines...), z.task(dir)), jobs+2
	}
	w.must("task", "submit", "-f", w.writeLines("report.jsonl", lines))
	w.waitCompleted(patience, jobs)
	if early, err := os.ReadFile(filepath.Join(dir, "early")); err == nil {
		t.Errorf("began before what they need had ended:\n%s", early)
	}
	w.endsCleanly(dev)
}

// post sends JSON with the header that is in a file, and expects that nothing has failed.
func (w *world) post(url, header string, body any) {
	w.t.Helper()
	text, err := os.ReadFile(header)
	must(w.t, err)
	name, value, _ := strings.Cut(strings.TrimSpace(string(text)), ": ")
	encoded, err := json.Marshal(body)
	must(w.t, err)
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, url, strings.NewReader(string(encoded)))
	must(w.t, err)
	request.Header.Set(name, value)
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	must(w.t, err)
	defer answer.Body.Close()
	var sum struct{ Submitted, Failed int }
	if err := json.NewDecoder(answer.Body).Decode(&sum); err != nil || answer.StatusCode != http.StatusOK || sum.Failed > 0 || sum.Submitted == 0 {
		w.t.Fatalf("%s: %s, %+v, %v", url, answer.Status, sum, err)
	}
}
