package api

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/windlass-go/windlass"
)

// Role is what a caller may do. Each role includes those before it.
type Role int

// The roles.
const (
	// RoleView may read everything and change nothing.
	RoleView Role = iota + 1
	// RoleOperate may submit, delete and command tasks, nodes, jobs and elections.
	RoleOperate
	// RoleAdmin may also forget and clear, which cannot be undone.
	RoleAdmin
)

// roleNames are the names of the roles in files and flags.
var roleNames = map[Role]string{RoleView: "view", RoleOperate: "operate", RoleAdmin: "admin"}

// String implements fmt.Stringer.
func (r Role) String() string { return roleNames[r] }

// ParseRole parses view, operate or admin.
func ParseRole(name string) (Role, error) {
	for role, known := range roleNames {
		if known == name {
			return role, nil
		}
	}
	return 0, badInput("role", name, "must be view, operate or admin")
}

// Caller is the sender of a request.
type Caller struct {
	// Name is for the audit log and the rate limit; it is not a secret.
	Name string
	// Role is what the caller may do.
	Role Role
}

// tokenPrefix lets scanners find tokens that were published by mistake.
const tokenPrefix = "windlass_"

// NewToken returns a token of 256 random bits.
func NewToken() string {
	var bits [32]byte
	rand.Read(bits[:]) // never fails
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(bits[:])
}

// TokenLine returns the line of a token file for a token: its role, a name and its hash.
// The hash is a plain SHA-256: 256 random bits cannot be guessed, so a slow or salted hash
// would only cost the server on every request.
func TokenLine(role Role, name, token string) (string, error) {
	if err := checkTokenName(name); err != nil {
		return "", err
	}
	if role < RoleView || role > RoleAdmin {
		return "", badInput("role", int(role), "must be view, operate or admin")
	}
	hash := sha256.Sum256([]byte(token))
	return fmt.Sprintf("%s %s %s%s", role, name, hashPrefix, hex.EncodeToString(hash[:])), nil
}

const (
	hashPrefix = "sha256:"
	// tokenNameBytesMax bounds the name of a token.
	tokenNameBytesMax = 64
	// tokensMax bounds the tokens of a file, each of which is compared on every
	// request.
	tokensMax = 1000
	// tokenFileBytesMax bounds the size of the file.
	tokenFileBytesMax = 1 << 20
	// rereadEvery is the least time between two checks of the file.
	rereadEvery = time.Second
)

func checkTokenName(name string) error {
	for _, r := range name {
		if r <= ' ' || r > '~' || r == '#' {
			return badInput("token name", name, "must be printable ASCII without spaces and #")
		}
	}
	if name == "" || len(name) > tokenNameBytesMax {
		return badInput("token name", name, fmt.Sprintf("must have 1 to %d bytes", tokenNameBytesMax))
	}
	return nil
}

// Tokens are the callers listed in a file:
//
//	# role, name, hash; see "windlass token"
//	view    dashboard  sha256:9f86d0…
//	operate deploy     sha256:60303a…
//	operate deploy     sha256:fd61a0…
//
// A name may have several lines, so that an old and a new token are both valid while one
// replaces the other. The file is read again when it has changed. If it is then invalid,
// the last valid contents stay in use and the error is logged, so that a typing error does
// not lock everybody out.
type Tokens struct {
	path string
	log  *slog.Logger

	mu      sync.Mutex
	entries []tokenEntry
	seen    os.FileInfo // when the file was read
	checked time.Time   // when it was last compared with seen
}

type tokenEntry struct {
	caller Caller
	hash   [sha256.Size]byte
}

// LoadTokens reads a token file. It refuses a file that anyone but its owner can write,
// and a file without a token. A nil logger means slog.Default().
func LoadTokens(path string, log *slog.Logger) (*Tokens, error) {
	t := &Tokens{path: path, log: cmp.Or(log, slog.Default()), checked: time.Now()}
	if err := t.read(); err != nil {
		return nil, err
	}
	return t, nil
}

// read reads the file. After an error the entries are unchanged.
func (t *Tokens) read() error {
	f, err := os.Open(t.path)
	if err != nil {
		return fmt.Errorf("token file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("token file: %w", err)
	}
	t.seen = info
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return badInput("token file "+t.path, fmt.Sprintf("%#o", mode), "must be writable by its owner alone")
	}
	content, err := io.ReadAll(io.LimitReader(f, tokenFileBytesMax+1))
	switch {
	case err != nil:
		return fmt.Errorf("token file: %w", err)
	case len(content) > tokenFileBytesMax:
		return badInput("token file "+t.path, "", fmt.Sprintf("must have at most %d bytes", tokenFileBytesMax))
	}
	entries, err := parseTokens(content)
	if err != nil {
		return fmt.Errorf("token file %s: %w", t.path, err)
	}
	t.entries = entries
	return nil
}

// parseTokens parses a file. An error has the number of the line, but not its hash or a long
// word, which may be a token that was put there by mistake.
func parseTokens(content []byte) ([]tokenEntry, error) {
	var entries []tokenEntry
	scanner := bufio.NewScanner(bytes.NewReader(content))
	for line := 1; scanner.Scan(); line++ {
		text, _, _ := strings.Cut(scanner.Text(), "#")
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 3 {
			return nil, fmt.Errorf("line %d: %w", line, badInput("line", fmt.Sprintf("%d fields", len(fields)), "must be a role, a name and a hash"))
		}
		role, err := ParseRole(fields[0])
		if err == nil {
			err = checkTokenName(fields[1])
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, unshown(err))
		}
		e := tokenEntry{caller: Caller{Name: fields[1], Role: role}}
		text, isHash := strings.CutPrefix(fields[2], hashPrefix)
		hash, err := hex.DecodeString(text)
		if err != nil || !isHash || copy(e.hash[:], hash) != len(e.hash) || len(hash) != len(e.hash) {
			return nil, fmt.Errorf("line %d: %w", line, badInput("hash", notShown, "must be sha256: and 64 hexadecimal digits"))
		}
		entries = append(entries, e)
	}
	switch n := len(entries); {
	case scanner.Err() != nil:
		return nil, scanner.Err()
	case n == 0:
		return nil, badInput("tokens", 0, "must be at least one")
	case n > tokensMax:
		return nil, badInput("tokens", n, fmt.Sprintf("must be at most %d", tokensMax))
	}
	return entries, nil
}

const (
	// notShown replaces a value that may be a token.
	notShown = "(not shown)"
	// wordBytesMax is how long a shown value may be, shorter than any token.
	wordBytesMax = 20
)

// unshown removes the value from an error about an input if it may be a token.
func unshown(err error) error {
	input, ok := errors.AsType[*windlass.BadInputError](err)
	if !ok || len(input.Value) <= wordBytesMax {
		return err
	}
	return badInput(input.Field, notShown, input.Limit)
}

// Find returns the caller with a token. It takes the same time whichever token it is,
// and whether or not it is valid.
func (t *Tokens) Find(token string) (Caller, bool) {
	hash := sha256.Sum256([]byte(token))
	var found Caller
	for _, e := range t.current() {
		if subtle.ConstantTimeCompare(hash[:], e.hash[:]) == 1 {
			found = e.caller
		}
	}
	return found, found != (Caller{})
}

// current returns the entries of the file as it is now, or was a moment ago.
func (t *Tokens) current() []tokenEntry {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.checked) < rereadEvery {
		return t.entries
	}
	t.checked = time.Now()
	info, err := os.Stat(t.path)
	if err == nil && os.SameFile(info, t.seen) && info.ModTime().Equal(t.seen.ModTime()) && info.Size() == t.seen.Size() &&
		info.Mode() == t.seen.Mode() { // which may have been the reason for an error
		return t.entries
	}
	if err == nil {
		err = t.read()
	}
	if err != nil {
		t.log.Error("the token file cannot be read; the tokens stay as they were", "error", err)
	} else {
		t.log.Info("the token file was read again", "tokens", len(t.entries))
	}
	return t.entries
}
