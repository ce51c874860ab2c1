package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/cmd/windlass/internal/history"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/statemachine"
)

// newer is the coordinator of a future version, as in a rolling upgrade. Its values have
// JSON members, and its tasks a key, that the current version does not know and must
// keep. The log checks that.
type newer struct {
	coordinator.Coordinator
	store broker.Broker
}

// newerEvery is the number of processes of which one has the newer version.
const newerEvery = 3

// Claim implements coordinator.Coordinator. The key may be written late or not at all.
func (n *newer) Claim(ctx context.Context, wanted []coordinator.Wanted) []coordinator.Result {
	results := n.Coordinator.Claim(ctx, wanted)
	var txns []broker.Txn
	for i, r := range results {
		if r.Err == nil {
			task := "/test/tasks/" + wanted[i].ID
			txns = append(txns, broker.Txn{
				If:   []broker.Cond{broker.Created(task+"/owner", r.Token)},
				Then: []broker.Op{broker.Put(task+"/"+history.Newer, nil)},
			})
		}
	}
	n.store.Commit(ctx, txns...)
	return results
}

// End implements coordinator.Coordinator.
func (n *newer) End(ctx context.Context, endings []coordinator.Ending) []coordinator.Ended {
	endings = slices.Clone(endings)
	for i := range endings {
		if endings[i].Kind != coordinator.Checkpoint { // its value belongs to the handler
			endings[i].State = withNewer(endings[i].State)
		}
	}
	return n.Coordinator.End(ctx, endings)
}

// Audit implements coordinator.Coordinator.
func (n *newer) Audit(ctx context.Context, records []coordinator.AuditRecord) []error {
	records = slices.Clone(records)
	for i := range records {
		records[i].History = slices.Clone(records[i].History)
		for k, entry := range records[i].History {
			value, err := json.Marshal(entry)
			if err == nil {
				var h statemachine.History
				if h, err = statemachine.ParseHistory(slices.Concat([]byte(`{"entries":[`), withNewer(value), []byte(`]}`))); err == nil {
					records[i].History[k] = h.Entries[0]
				}
			}
		}
	}
	return n.Coordinator.Audit(ctx, records)
}

// withNewer adds the member to a JSON object that does not have it yet.
func withNewer(object []byte) []byte {
	const member = `"` + history.Newer + `":`
	if object == nil || bytes.Contains(object, []byte(member)) {
		return object
	}
	return append(bytes.TrimSuffix(slices.Clone(object), []byte("}")), `,`+member+`{"by":"a version to come"}}`...)
}
