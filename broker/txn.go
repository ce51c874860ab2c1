package broker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Txn is a conditional transaction. If every condition of If holds, the operations of
// Then are applied together, otherwise those of Else. An empty If always holds. No key
// may be written twice in one branch.
type Txn struct {
	If   []Cond
	Then []Op
	// Else may only read.
	Else []Op
}

// Result is the outcome of one transaction.
type Result struct {
	// Err is set if the transaction was refused or its outcome is unknown; see
	// MaybeApplied. The other fields are then zero.
	Err error
	// OK is true if the conditions held and Then was applied.
	OK bool
	// Revision is the revision of the store after the transaction. If OK is true and
	// Then wrote something, it is the revision of these writes, so a key created by
	// them has it as its Created. Other transactions of the call may share it.
	Revision Revision
	// Reads has one entry for each OpRead of the branch taken, in order; nil if the key
	// does not exist.
	Reads []*KV
}

// CondKind is the kind of a condition.
type CondKind uint8

// The kinds of conditions.
const (
	// CondExists holds when the key exists.
	CondExists CondKind = iota + 1
	// CondAbsent holds when the key does not exist.
	CondAbsent
	// CondCreated holds when the key exists and was created at the revision.
	CondCreated
	// CondModified holds when the key exists and last changed at the revision.
	CondModified
)

// Cond is one condition of a transaction.
type Cond struct {
	Kind     CondKind
	Key      string
	Revision Revision
}

// Exists is the condition that key exists.
func Exists(key string) Cond { return Cond{Kind: CondExists, Key: key} }

// Absent is the condition that key does not exist.
func Absent(key string) Cond { return Cond{Kind: CondAbsent, Key: key} }

// Created is the condition that key exists in the very incarnation that was created at
// rev. It is the fencing check: a write with Created(owner, token) is refused once the
// claim with that token is gone, whoever holds the task now.
func Created(key string, rev Revision) Cond {
	return Cond{Kind: CondCreated, Key: key, Revision: rev}
}

// Modified is the condition that key has not changed since rev.
func Modified(key string, rev Revision) Cond {
	return Cond{Kind: CondModified, Key: key, Revision: rev}
}

// OpKind is the kind of an operation.
type OpKind uint8

// The kinds of operations.
const (
	// OpPut writes a key.
	OpPut OpKind = iota + 1
	// OpDelete deletes a key; deleting an absent key is no error.
	OpDelete
	// OpDeleteTree deletes every key below a prefix ending in a slash, but not the
	// prefix's own node. No key below it may be put in the same transaction.
	OpDeleteTree
	// OpRead reads a key in its state before the transaction's own writes.
	OpRead
)

// Op is one operation of a transaction.
type Op struct {
	Kind  OpKind
	Key   string
	Value []byte
	// Session is the session that a put key belongs to; zero for none.
	Session SessionID
}

// Put writes a permanent key.
func Put(key string, value []byte) Op { return Op{Kind: OpPut, Key: key, Value: value} }

// PutSession writes a key that vanishes with the session. Such a key is always a leaf:
// no key may be put below it, and it may not be put above existing keys; a broker may
// refuse either with ErrInvalid. An existing key must belong to the same session.
func PutSession(key string, value []byte, id SessionID) Op {
	return Op{Kind: OpPut, Key: key, Value: value, Session: id}
}

// Delete deletes one key.
func Delete(key string) Op { return Op{Kind: OpDelete, Key: key} }

// DeleteTree deletes all keys below prefix, which must end in a slash.
func DeleteTree(prefix string) Op { return Op{Kind: OpDeleteTree, Key: prefix} }

// Read reads one key.
func Read(key string) Op { return Op{Kind: OpRead, Key: key} }

// Validate returns an error for a transaction that no broker accepts. Adapters call it
// before they send anything, so that all of them refuse the same transactions.
func (t Txn) Validate() error {
	if n := max(len(t.If), len(t.Then), len(t.Else)); n > TxnOpsMax {
		return NewError("commit", "", ErrTooLarge,
			fmt.Errorf("%d conditions or operations in one transaction; the limit is %d", n, TxnOpsMax))
	}
	for _, c := range t.If {
		if c.Kind < CondExists || c.Kind > CondModified {
			return NewError("commit", c.Key, ErrInvalid, fmt.Errorf("condition kind %d is unknown", c.Kind))
		}
		if err := CheckKey(c.Key); err != nil {
			return err
		}
	}
	if err := validateWrites(t.Then); err != nil {
		return err
	}
	for _, op := range t.Else {
		if op.Kind != OpRead {
			return NewError("commit", op.Key, ErrInvalid, errors.New("the else branch may only read"))
		}
	}
	return validateWrites(t.Else)
}

func validateWrites(ops []Op) error {
	var few [8]Op // usually enough, and needs no allocation
	written, size := few[:0], 0
	for _, op := range ops {
		size += len(op.Key) + len(op.Value)
		if err := op.validate(); err != nil {
			return err
		}
		if op.Kind == OpRead {
			continue
		}
		if slices.ContainsFunc(written, op.Overlaps) {
			return NewError("commit", op.Key, ErrInvalid, errors.New("written twice in one transaction"))
		}
		written = append(written, op)
	}
	if size > TxnBytesMax {
		return NewError("commit", "", ErrTooLarge,
			fmt.Errorf("%d bytes of keys and values in one transaction; the limit is %d", size, TxnBytesMax))
	}
	return nil
}

// Overlaps reports whether two writes touch a common key.
func (op Op) Overlaps(other Op) bool {
	switch {
	case op.Kind == OpDeleteTree && strings.HasPrefix(other.Key, op.Key),
		other.Kind == OpDeleteTree && strings.HasPrefix(op.Key, other.Key):
		return true
	default:
		return op.Key == other.Key
	}
}

func (op Op) validate() error {
	switch op.Kind {
	case OpDeleteTree:
		return CheckPrefix(op.Key)
	case OpPut, OpDelete, OpRead:
	default:
		return NewError("commit", op.Key, ErrInvalid, fmt.Errorf("operation kind %d is unknown", op.Kind))
	}
	if err := CheckKey(op.Key); err != nil {
		return err
	}
	if n := len(op.Value); n > ValueBytesMax {
		return NewError("commit", op.Key, ErrTooLarge,
			fmt.Errorf("the value has %d bytes; the limit is %d", n, ValueBytesMax))
	}
	return nil
}

// CheckKey refuses a malformed key. A key begins with a slash, does not end in one, has
// no empty, "." or ".." segment, is UTF-8 without control characters, and is at most
// KeyBytesMax bytes long.
func CheckKey(key string) error {
	if len(key) > KeyBytesMax {
		return NewError("check", key[:64]+"…", ErrTooLarge,
			fmt.Errorf("the key has %d bytes; the limit is %d", len(key), KeyBytesMax))
	}
	if !strings.HasPrefix(key, "/") {
		return NewError("check", key, ErrInvalid, errors.New("a key begins with a slash"))
	}
	if !utf8.ValidString(key) || strings.ContainsFunc(key, isControl) {
		return NewError("check", fmt.Sprintf("%q", key), ErrInvalid, errors.New("a key is UTF-8 without control characters"))
	}
	for segment := range strings.SplitSeq(key[1:], "/") {
		if segment == "" || segment == "." || segment == ".." {
			return NewError("check", key, ErrInvalid, fmt.Errorf("segment %q is not allowed in a key", segment))
		}
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || (r >= 0x7f && r < 0xa0) }

// CheckWatch refuses a watch of a text that is neither a prefix nor a key, or from a
// revision below 1.
func CheckWatch(prefix string, from Revision) error {
	if from < 1 {
		return NewError("watch", prefix, ErrInvalid, fmt.Errorf("revision %d: a watch begins at 1 or later", from))
	}
	if strings.HasSuffix(prefix, "/") {
		return CheckPrefix(prefix)
	}
	return CheckKey(prefix)
}

// CheckPrefix refuses a malformed prefix. A prefix is a key followed by one slash.
func CheckPrefix(prefix string) error {
	key, ok := strings.CutSuffix(prefix, "/")
	if !ok {
		return NewError("check", prefix, ErrInvalid, errors.New("a prefix ends in a slash"))
	}
	return CheckKey(key)
}
