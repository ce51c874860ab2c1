//go:build e2e && linux

package acceptance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// quotaBytes makes a broker that is soon full.
const quotaBytes = 16 << 20

// fill writes other keys into a broker until it is full. Etcd notices it some pieces late, and
// later on a quick machine: so what lives takes half of the quota, and the rest is its history.
func fill(ctx context.Context, t *testing.T, client *clientv3.Client) {
	t.Helper()
	piece := strings.Repeat("x", 512<<10)
	fits := quotaBytes / len(piece)
	for i := range 10 * fits {
		_, err := client.Put(ctx, fmt.Sprintf("filling/%d", i%(fits/2)), piece)
		if err != nil && strings.Contains(err.Error(), rpctypes.ErrNoSpace.Error()) {
			t.Logf("full after %d pieces", i)
			return
		}
		must(t, err)
	}
	t.Fatal("it takes more than its quota")
}

// empty does what an operator does with a full broker.
func empty(ctx context.Context, t *testing.T, client *clientv3.Client) {
	t.Helper()
	deleted, err := client.Delete(ctx, "filling/", clientv3.WithPrefix())
	must(t, err)
	_, err = client.Compact(ctx, deleted.Header.Revision, clientv3.WithCompactPhysical())
	must(t, err)
	for _, endpoint := range client.Endpoints() {
		_, err = client.Defragment(ctx, endpoint)
		must(t, err)
	}
	_, err = client.AlarmDisarm(ctx, &clientv3.AlarmMember{})
	must(t, err)
}

func TestBroker_M14_AFullOneEndsNoCommandAndGetsTheCompletionsOnceThereIsSpace(t *testing.T) {
	r := newRoom(t, clusterConfig{members: 1, quotaBytes: quotaBytes}, "n1", "n2")
	const endless, finite = 20, 10
	r.load(endless)
	client := r.etcd.client()
	defer func() { must(t, client.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	// They end when there is no space left, and note that they did.
	done := r.path("done")
	must(t, os.Mkdir(done, 0o700))
	wait := `until [ -e ` + r.path("full") + ` ]; do sleep 0.1; done; echo "$WINDLASS_TOKEN" >>` + done + `/"$WINDLASS_TASK"`
	r.submit("f", finite, wait)
	r.waitQuiet(endless + finite)
	before := r.census.now()

	fill(ctx, t, client)
	must(t, os.WriteFile(r.path("full"), nil, 0o600))
	r.eventually(soon, func() string {
		files, err := filepath.Glob(filepath.Join(done, "*"))
		must(t, err)
		return missing(len(files), finite, "commands have ended")
	})
	_, errs, code := r.call("task", "submit", "refused", "--", "true")
	if code != exitUnavailable || !strings.Contains(errs, "The broker is full") {
		t.Errorf("a submission: exit code %d, %s", code, errs)
	}
	r.holds(ttl+quiet, func() string { return missing(r.sameRuns(before), endless, "commands run on") })
	var tasks []task
	r.list(&tasks, "task", "list", "--status", "completed")
	if len(tasks) > 0 {
		t.Errorf("%d completions are written although there is no space", len(tasks))
	}

	emptied := time.Now()
	empty(ctx, t, client)
	tasks, written := r.waitCompleted(soon, finite)
	r.took("space until all completions are written", emptied, written)
	for _, got := range tasks {
		content, err := os.ReadFile(filepath.Join(done, got.ID))
		must(t, err)
		if want := fmt.Sprintf("%d\n", got.Token); string(content) != want {
			t.Errorf("task %s was run by %q, and completed by %q", got.ID, content, want)
		}
	}
	r.must("task", "submit", "accepted", "--", "true")
	r.undisturbed(quiet, of(before, "")) // nothing that was not there has exited
	r.noneLost(endless)
	if same := r.sameRuns(before); same != endless {
		t.Errorf("%d of %d commands ran on", same, endless)
	}
}
