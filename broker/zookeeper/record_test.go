package zookeeper

import (
	"reflect"
	"testing"

	"github.com/windlass-go/windlass/broker"
)

func someRecord() record {
	return record{
		{kind: changePut, events: 1, path: "/a", created: 7, session: -5, value: []byte("v")},
		{kind: changeLong, events: 2, path: "/b", long: 5000}, {kind: changeDelete, events: 1, path: "/c"}, {kind: changeQuiet, events: 3, path: "/d/e"},
	}
}

func TestRecord_IsReadAsItWasWritten(t *testing.T) {
	if got, err := decodeRecord(someRecord().encode()); err != nil || !reflect.DeepEqual(got, someRecord()) {
		t.Errorf("%+v, %v", got, err)
	}
	data := someRecord().encode()
	for n := range data {
		if got, err := decodeRecord(data[:n]); err == nil && len(got) == len(someRecord()) {
			t.Errorf("the first %d of %d bytes were read as %+v", n, len(data), got)
		}
	}
}

func TestRecord_LeavesLongValuesOut(t *testing.T) {
	r := record{{kind: changePut, path: "/a", value: make([]byte, broker.WatchedValueBytes+1)}}
	for range 10 {
		r = append(r, change{kind: changePut, path: "/b", value: make([]byte, broker.WatchedValueBytes)})
	}
	slim := r.slim()
	kept := 0
	for i, c := range slim {
		kept += len(c.value)
		if (c.kind == changeLong) != (c.value == nil) || c.long+len(c.value) != len(r[i].value) {
			t.Errorf("%d with a value of %d bytes, and %d left out", c.kind, len(c.value), c.long)
		}
	}
	if kept != broker.WatchedTxnBytes || slim[0].kind != changeLong {
		t.Errorf("%d bytes are kept", kept)
	}
}

func FuzzRecord(f *testing.F) {
	f.Add(someRecord().encode())
	f.Add([]byte{recordVersion})
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decodeRecord(data)
		if err != nil {
			return
		}
		if again, err := decodeRecord(r.encode()); err != nil || !reflect.DeepEqual(again, r) {
			t.Errorf("%+v was read again as %+v, %v", r, again, err)
		}
	})
}

func FuzzLayout(f *testing.F) {
	for _, key := range []string{"/a", "/ns/tasks/a/props", "/zookeeper/_b/%", "/tasks/_b05/x", "/\U0001F600/\uffff"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if broker.CheckKey(key) != nil {
			return
		}
		for _, chroot := range []string{"", "/c"} {
			l := layout{chroot: chroot, wide: []string{"tasks", "a"}}
			if back, ok := l.key(l.path(key)); !ok || back != key {
				t.Errorf("%q is kept at %q, which is read as %q, %t", key, l.path(key), back, ok)
			}
		}
	})
}
