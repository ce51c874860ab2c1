package etcd

import (
	"context"
	"iter"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/windlass-go/windlass/broker"
)

// Get implements broker.Broker.
func (b *Broker) Get(ctx context.Context, key string) (broker.KV, error) {
	if err := broker.CheckKey(key); err != nil {
		return broker.KV{}, err
	}
	answer, err := anywhere(ctx, b, "get", key, toAnother, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return b.client.KV.Get(ctx, key)
	})
	if err != nil {
		return broker.KV{}, readOnly(err)
	}
	if len(answer.Kvs) == 0 {
		return broker.KV{}, broker.NewError("get", key, broker.ErrNotFound, nil)
	}
	return toKV(answer.Kvs[0]), nil
}

func toKV(kv *mvccpb.KeyValue) broker.KV {
	return broker.KV{
		Key:      string(kv.Key),
		Value:    kv.Value,
		Created:  broker.Revision(kv.CreateRevision),
		Modified: broker.Revision(kv.ModRevision),
		Session:  broker.SessionID(kv.Lease),
	}
}

// Pages start small because the size of the values is unknown: the first has at most 128
// values of at most half a MiB, which is 64 MiB. The size of the next depends on the sizes
// seen. A page of 2 MiB takes a few milliseconds, so that a long listing does not delay
// etcd's other requests.
const (
	pageKeysFirst = 128
	pageKeysMin   = 16
	pageKeysMax   = 8192
	pageBytes     = 2 << 20
)

// List implements broker.Broker.
func (b *Broker) List(ctx context.Context, prefix string) iter.Seq2[broker.Page, error] {
	return func(yield func(broker.Page, error) bool) {
		if err := broker.CheckPrefix(prefix); err != nil {
			yield(broker.Page{}, err)
			return
		}
		next, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
		limit := int64(pageKeysFirst)
		var revision broker.Revision
		for {
			answer, err := b.page(ctx, prefix, next, end, revision, limit)
			if err != nil {
				yield(broker.Page{}, err)
				return
			}
			if revision == 0 {
				revision = broker.Revision(answer.Header.Revision)
			}
			if !yield(broker.Page{Revision: revision, KVs: toKVs(answer.Kvs)}, nil) || !answer.More {
				return
			}
			// The successor of a key is the key followed by a zero byte.
			next = string(answer.Kvs[len(answer.Kvs)-1].Key) + "\x00"
			limit = pageLimit(answer.Kvs)
		}
	}
}

func (b *Broker) page(ctx context.Context, prefix, from, end string, revision broker.Revision, limit int64) (*clientv3.GetResponse, error) {
	answer, err := anywhere(ctx, b, "list", prefix, toAnother, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return b.client.KV.Get(ctx, from,
			clientv3.WithRange(end), clientv3.WithLimit(limit), clientv3.WithRev(int64(revision)))
	})
	if err != nil {
		return nil, readOnly(err)
	}
	if answer.Header == nil || answer.More && len(answer.Kvs) == 0 {
		return nil, broker.NewError("list", prefix, broker.ErrUnavailable, errMisfit)
	}
	return answer, nil
}

func toKVs(found []*mvccpb.KeyValue) []broker.KV {
	kvs := make([]broker.KV, len(found))
	for i, kv := range found {
		kvs[i] = toKV(kv)
	}
	return kvs
}

// pageLimit returns the number of keys for the next page, from the sizes in the last.
func pageLimit(kvs []*mvccpb.KeyValue) int64 {
	bytes := 0
	for _, kv := range kvs {
		bytes += len(kv.Key) + len(kv.Value)
	}
	perKey := max(1, bytes/len(kvs))
	return int64(min(pageKeysMax, max(pageKeysMin, pageBytes/perKey)))
}
