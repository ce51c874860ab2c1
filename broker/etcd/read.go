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
	answer, e := anywhere(ctx, b, "get", key, b.toAnother(), func(ctx context.Context) (*clientv3.GetResponse, error) {
		return b.client.KV.Get(ctx, key)
	})
	if e != nil {
		return broker.KV{}, readOnly(e)
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

// Pages start small because the size of the values is not known beforehand: the
// first holds at most 128 values of at most half a MiB, which is 64 MiB. From
// then on the size seen decides. A page of 2 MiB takes a few milliseconds, so
// that a long listing does not hold up etcd's other requests.
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
			if !yield(toPage(answer, revision), nil) || !answer.More {
				return
			}
			// The successor of a key is the key with a zero byte behind it.
			next = string(answer.Kvs[len(answer.Kvs)-1].Key) + "\x00"
			limit = pageLimit(answer.Kvs)
		}
	}
}

func (b *Broker) page(ctx context.Context, prefix, from, end string, revision broker.Revision, limit int64) (*clientv3.GetResponse, error) {
	answer, e := anywhere(ctx, b, "list", prefix, b.toAnother(), func(ctx context.Context) (*clientv3.GetResponse, error) {
		return b.client.KV.Get(ctx, from,
			clientv3.WithRange(end), clientv3.WithLimit(limit), clientv3.WithRev(int64(revision)))
	})
	if e != nil {
		return nil, readOnly(e)
	}
	if answer.Header == nil || answer.More && len(answer.Kvs) == 0 {
		return nil, broker.NewError("list", prefix, broker.ErrUnavailable, errMisfit)
	}
	return answer, nil
}

func toPage(answer *clientv3.GetResponse, revision broker.Revision) broker.Page {
	page := broker.Page{Revision: revision, KVs: make([]broker.KV, len(answer.Kvs))}
	for i, kv := range answer.Kvs {
		page.KVs[i] = toKV(kv)
	}
	return page
}

// pageLimit is the number of keys for the next page, from the sizes in the last.
func pageLimit(kvs []*mvccpb.KeyValue) int64 {
	bytes := 0
	for _, kv := range kvs {
		bytes += len(kv.Key) + len(kv.Value)
	}
	perKey := max(1, bytes/len(kvs))
	return int64(min(pageKeysMax, max(pageKeysMin, pageBytes/perKey)))
}
