//go:build e2e && linux

package acceptance

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// packagesMin is how many package folders the quick start hashes at least.
const packagesMin = 300

// goRoot is the folder of Go's own source.
func goRoot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	must(t, err)
	return filepath.Join(strings.TrimSpace(string(out)), "src")
}

// packages returns folders of the Go tree with the hash of their Go files.
func packages(t *testing.T) map[string]string {
	t.Helper()
	root := goRoot(t)
	folders := map[string]string{}
	must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if d.Name() == "testdata" || len(folders) == packagesMin+20 {
			return filepath.SkipDir
		}
		files, err := filepath.Glob(filepath.Join(path, "*.go"))
		if err != nil || len(files) == 0 {
			return err
		}
		hash := sha256.New()
		for _, name := range files { // sorted, as a shell with LC_ALL=C has them
			content, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			hash.Write(content)
		}
		folders[path] = hex.EncodeToString(hash.Sum(nil))
		return nil
	}))
	if len(folders) < packagesMin {
		t.Fatalf("only %d package folders in %s", len(folders), root)
	}
	return folders
}

func TestQuickstart_HundredsOfSubmittedCommandsRunOnceEachAndLeaveTheirOutput(t *testing.T) {
	w := newWorld(t)
	folders := packages(t)
	dev := w.start("dev", "dev", "--nodes", "3", "--session-ttl", "5s")
	began := w.eventually(soon, func() string { return w.missingNodes(3) })

	// Each run counts itself, since it may be too short for the census.
	counted := w.path("counted")
	outputs := map[string]string{}
	var lines []any
	for path, hash := range folders {
		id := strings.ReplaceAll(strings.TrimPrefix(path, goRoot(t)+"/"), "/", ":")
		outputs[id] = hash
		lines = append(lines, map[string]any{"id": id, "type": "exec", "props": map[string]any{
			"command": []string{"sh", "-c", `echo "$WINDLASS_TASK" >>"$COUNTED" && cat *.go | sha256sum`},
			"dir":     path, "env": map[string]string{"COUNTED": counted, "LC_ALL": "C"},
		}})
	}
	file := w.writeLines("tasks.jsonl", lines)
	if got, want := w.must("task", "submit", "-f", file, "-o", "json"), fmt.Sprintf(`"submitted": %d`, len(lines)); !strings.Contains(got, want) {
		t.Fatalf("submit said %s, want %s", got, want)
	}
	_, done := w.waitCompleted(patience, len(lines))
	w.took(fmt.Sprintf("%d commands submitted and completed", len(lines)), began, done)

	w.compareOutputs(outputs)
	again := w.must("task", "submit", "-f", file, "-o", "json")
	for _, want := range []string{`"submitted": 0`, fmt.Sprintf(`"existed": %d`, len(lines)), `"failed": 0`} {
		if !strings.Contains(again, want) {
			t.Errorf("the second submission said %s, want %s", again, want)
		}
	}
	content, err := os.ReadFile(counted)
	must(t, err)
	counts := map[string]int{}
	for id := range strings.Lines(string(content)) {
		counts[strings.TrimSuffix(id, "\n")]++
	}
	for id := range outputs {
		if counts[id] != 1 {
			t.Errorf("task %s ran %d times", id, counts[id])
		}
	}
	w.endsCleanly(dev)
	if left, err := filepath.Glob(w.path("tmp", "windlass-dev-*")); err != nil || len(left) > 0 {
		t.Errorf("dev left %q behind, %v", left, err)
	}
}

// compareOutputs reads each task and compares its output's first word.
func (w *world) compareOutputs(outputs map[string]string) {
	w.t.Helper()
	ids := make(chan string)
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for id := range ids {
				var got task
				out, errs, code := w.call("task", "get", id, "-o", "json")
				if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
					w.t.Errorf("task get %s: exit code %d, %v: %s", id, code, err, errs)
				}
				if got.Result.Output != outputs[id]+"  -\n" || got.Result.ExitCode != 0 {
					w.t.Errorf("task %s: %+v, want the hash %s", id, got, outputs[id])
				}
			}
		})
	}
	for id := range outputs {
		ids <- id
	}
	close(ids)
	readers.Wait()
}

// missing describes a number that is not reached yet; it is empty otherwise.
func missing(got, want int, what string) string {
	if got == want {
		return ""
	}
	return fmt.Sprintf("%d of %d %s", got, want, what)
}

func (w *world) missingNodes(want int) string {
	var nodes []node
	if !w.list(&nodes, "node", "list") {
		return "the broker is unavailable"
	}
	return missing(len(nodes), want, "nodes")
}

// endsCleanly stops a process as an operator does.
func (w *world) endsCleanly(p *process) {
	w.t.Helper()
	w.signal(p, syscall.SIGTERM)
	w.until(soon, p.name+" has ended", func() bool { return !p.alive() })
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		w.t.Errorf("%s ended with exit code %d", p.name, code)
	}
}
