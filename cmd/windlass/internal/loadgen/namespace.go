package loadgen

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// Namespace returns a new namespace next to another.
func Namespace(beside string) string {
	return strings.TrimRight(strings.TrimSpace(beside), "/") + "-bench-" + strings.ToLower(rand.Text()[:8])
}

// deletionMax bounds a removal. Config.Timeout does not, because there is something to remove
// after a timeout, too.
const deletionMax = 2 * time.Minute

// remove deletes everything in a namespace, also when ctx has ended.
func remove(ctx context.Context, b broker.Broker, namespace string) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), deletionMax,
		fmt.Errorf("it took longer than %v", deletionMax))
	defer cancel()
	err := removeTree(ctx, b, namespace+"/")
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("delete what was in namespace %s: %w", namespace, err)
}

// removeTree deletes all keys below a prefix: page by page, because a broker that deletes a
// million keys at once answers nobody else meanwhile, and then what was not listed because the
// broker compacted its history.
func removeTree(ctx context.Context, b broker.Broker, prefix string) error {
	for page, err := range b.List(ctx, prefix) {
		if errors.Is(err, broker.ErrCompacted) {
			break
		}
		if err != nil {
			return err
		}
		txns := make([]broker.Txn, len(page.KVs))
		for i, kv := range page.KVs {
			txns[i].Then = []broker.Op{broker.Delete(kv.Key)}
		}
		if _, err := commitAll(ctx, b, txns); err != nil {
			return err
		}
	}
	_, err := broker.CommitOne(ctx, b, broker.Txn{Then: []broker.Op{broker.DeleteTree(prefix)}})
	return err
}
