package brokertest

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/windlass-go/windlass/broker"
)

var limitRules = []Rule{
	{Number: "B23", Name: "value_limit_is_exact", test: valueLimit,
		Sentence: "A value of ValueBytesMax is kept, one byte more is ErrTooLarge."},
	{Number: "B24", Name: "transaction_limit_is_exact", test: transactionLimit,
		Sentence: "TxnOpsMax conditions and operations are one transaction, one more is ErrTooLarge."},
	{Number: "B25", Name: "key_limit_is_exact", test: keyLimit,
		Sentence: "A key of KeyBytesMax is kept, one byte more is ErrTooLarge."},
	{Number: "B26", Name: "malformed_keys_are_refused", test: malformedKeys,
		Sentence: "Every method refuses a malformed key or prefix as ErrInvalid before anything is sent."},
}

func valueLimit(t *trial) {
	value := bytes.Repeat([]byte("0123456789abcdef"), broker.ValueBytesMax/16)
	t.write(broker.Put(t.prefix+"a", value))
	if got := t.get("a").Value; !bytes.Equal(got, value) {
		t.Errorf("the value was read back as %d other bytes", len(got))
	}
	_, err := broker.CommitOne(t.ctx, t.broker, broker.Txn{Then: []broker.Op{broker.Put(t.prefix+"b", append(value, 0))}})
	t.wantKind("a value one byte too long", err, broker.ErrTooLarge)
	t.wantAbsent("b")
}

func transactionLimit(t *trial) {
	var txn broker.Txn
	for i := range broker.TxnOpsMax {
		k := t.prefix + "many/" + strconv.Itoa(i)
		txn.If = append(txn.If, broker.Absent(k))
		txn.Then = append(txn.Then, broker.Put(k, []byte("1")))
		txn.Else = append(txn.Else, broker.Read(k))
	}
	if r := t.commit(txn); !r.OK {
		t.Errorf("the transaction has result %+v, want OK", r)
	}
	r := t.commit(txn)
	if r.OK || len(r.Reads) != broker.TxnOpsMax {
		t.Errorf("the second time OK is %t with %d reads, want not OK and %d", r.OK, len(r.Reads), broker.TxnOpsMax)
	}
	for _, kv := range r.Reads {
		if kv == nil || string(kv.Value) != "1" {
			t.Errorf("a read returned %+v, want the key put before", kv)
		}
	}
	then, conds := txn, txn
	then.Then = append(txn.Then, broker.Put(t.prefix+"over", nil))
	conds.If = append(txn.If, broker.Absent(t.prefix+"over"))
	for i, r := range t.broker.Commit(t.ctx, then, conds) {
		t.wantKind([]string{"one operation too many", "one condition too many"}[i], r.Err, broker.ErrTooLarge)
	}
}

func keyLimit(t *trial) {
	name := strings.Repeat("k", broker.KeyBytesMax-len(t.prefix))
	t.put(name, "1")
	t.get(name)
	t.wantNames("", name)
	_, err := t.broker.Get(t.ctx, t.prefix+name+"k")
	t.wantKind("Get of a key one byte too long", err, broker.ErrTooLarge)
	_, err = broker.CommitOne(t.ctx, t.broker, broker.Txn{Then: []broker.Op{broker.Put(t.prefix+name+"k", nil)}})
	t.wantKind("Put of a key one byte too long", err, broker.ErrTooLarge)
}

func malformedKeys(t *trial) {
	rev := t.put("a", "1")
	p := t.prefix
	for _, key := range []string{"", "a", "/", p, p + "a/", p + "a//b", p + "./b", p + "../b", p + "a/..",
		p + "a\x00b", p + "a\nb", p + "a\x7f", p + "a\u0085b", p + "a\xffb"} {
		what := strconv.Quote(key)
		_, err := t.broker.Get(t.ctx, key)
		t.wantKind("Get of "+what, err, broker.ErrInvalid)
		for _, txn := range []broker.Txn{
			{Then: []broker.Op{broker.Put(key, nil)}},
			{Then: []broker.Op{broker.Delete(key)}},
			{Then: []broker.Op{broker.Read(key)}},
			{If: []broker.Cond{broker.Absent(key)}},
			{Else: []broker.Op{broker.Read(key)}},
		} {
			wantRefused(t, "Commit with "+what, t.broker.Commit(t.ctx, txn)[0], broker.ErrInvalid)
		}
	}
	for _, prefix := range []string{"", "/", "//", "a/", p + "a", p + "a//", p + "../", p + "\x00/"} {
		what := strconv.Quote(prefix)
		wantRefused(t, "DeleteTree of "+what,
			t.broker.Commit(t.ctx, broker.Txn{Then: []broker.Op{broker.DeleteTree(prefix)}})[0], broker.ErrInvalid)
		_, _, err := broker.Collect(t.ctx, t.broker, prefix)
		t.wantKind("List of "+what, err, broker.ErrInvalid)
		if prefix != p+"a" { // a valid key, which can be watched
			t.wantKind("Watch of "+what, t.watchError(t.ctx, prefix, rev, func() {}), broker.ErrInvalid)
		}
	}
	t.wantKind("Watch from revision 0", t.watchError(t.ctx, p, 0, func() {}), broker.ErrInvalid)
	t.get("a")
}
