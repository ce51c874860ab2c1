package loadgen

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
)

// randomChars is how many random characters end the name of a namespace.
const randomChars = 8

// Namespace returns a new one, next to the one that is given.
func Namespace(beside string) string {
	return strings.TrimRight(strings.TrimSpace(beside), "/") + "-bench-" + strings.ToLower(rand.Text()[:randomChars])
}

// removalMax bounds how long a removal takes. It is not Config.Timeout, because
// after that has passed there is still something to remove.
const removalMax = 2 * time.Minute

// remove deletes everything in a namespace, also when ctx has ended. It deletes
// in small pieces, because a broker that deletes a million keys at once answers
// nobody else meanwhile.
func remove(ctx context.Context, b broker.Broker, namespace string) error {
	space, err := keys.New(namespace)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), removalMax,
		fmt.Errorf("it took longer than %v", removalMax))
	defer cancel()
	err = removeTree(ctx, b, space.All())
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("delete what was in namespace %s: %w", space.Root(), err)
}

// removalsMax bounds how often a subtree that is written to meanwhile is listed
// anew.
const removalsMax = 10

var errStillThere = errors.New("keys are still there")

// removeTree deletes all keys below a prefix.
func removeTree(ctx context.Context, b broker.Broker, prefix string) error {
	for range removalsMax {
		found, err := removeListed(ctx, b, prefix)
		switch {
		case err != nil && !errors.Is(err, broker.ErrCompacted):
			return err
		case err == nil && found == 0:
			return nil
		}
		// What came in between, and what nobody may list.
		if _, err := broker.CommitOne(ctx, b, broker.Txn{Then: []broker.Op{broker.DeleteTree(prefix)}}); err != nil {
			return err
		}
	}
	return errStillThere
}

func removeListed(ctx context.Context, b broker.Broker, prefix string) (found int, err error) {
	for page, err := range b.List(ctx, prefix) {
		if err != nil {
			return found, err
		}
		found += len(page.KVs)
		txns := make([]broker.Txn, len(page.KVs))
		for i, kv := range page.KVs {
			txns[i].Then = []broker.Op{broker.Delete(kv.Key)}
		}
		if _, err := commitAll(ctx, b, txns); err != nil {
			return found, err
		}
	}
	return found, nil
}

// commitAll commits transactions none of which may be refused, and returns how
// long that took.
func commitAll(ctx context.Context, b broker.Broker, txns []broker.Txn) (time.Duration, error) {
	if len(txns) == 0 {
		return 0, nil
	}
	began := time.Now()
	results := b.Commit(ctx, txns...)
	took := time.Since(began)
	for _, r := range results {
		if r.Err != nil {
			return took, r.Err
		}
		if !r.OK {
			return took, errors.New("a transaction was refused: someone else writes into the namespace")
		}
	}
	return took, nil
}
