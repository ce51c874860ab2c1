package cli

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/session"
)

// survivedFile, in the folder of a node's output, has the incarnations that its processes have
// outlived, one in each line.
const survivedFile = "survived"

// survivedKept is how many of them are kept: no more deaths of one node are recorded.
const survivedKept = windlass.DeathsMax

// survived keeps on disk which incarnations of a node have ended before their processes: these
// were cut off, and no task is to blame for what became of them.
type survived struct {
	path string
	log  *slog.Logger
	// names were kept when this process started.
	names []string

	writing sync.Mutex

	mu   sync.Mutex // never held during a write: an event waits for it
	kept []string
	// changed is true if kept is not written.
	changed bool
	// live is the incarnation that has not ended.
	live string
}

// readSurvived reads what earlier processes have kept.
func readSurvived(dir string, log *slog.Logger) *survived {
	s := &survived{path: filepath.Join(dir, survivedFile), log: log}
	content, err := os.ReadFile(s.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("a death may be counted that was none", "error", err)
	}
	s.keep(strings.Fields(string(content))...)
	s.names = slices.Clone(s.kept)
	return s
}

func (s *survived) keep(incarnations ...string) {
	s.kept = append(s.kept, incarnations...)
	s.kept = s.kept[max(0, len(s.kept)-survivedKept):]
}

// events returns events that are told to s as well.
func (s *survived) events(e events.Node) events.Node {
	joined, left := e.Joined, e.Left
	e.Joined = func(incarnation string, timing session.Timing) {
		s.mu.Lock()
		s.live = incarnation
		s.mu.Unlock()
		joined(incarnation, timing)
	}
	e.Left = func(incarnation string, cause error, abandoned []string) {
		s.noteSoon()
		left(incarnation, cause, abandoned)
	}
	return e
}

// noteSoon is note for callers that do not wait for a disk.
func (s *survived) noteSoon() {
	s.end() // here: the next incarnation may soon be live
	go s.write()
}

// note keeps the live incarnation, which has ended or is about to: even one that was stopped in
// order leaves what looks like a death if the broker is away.
func (s *survived) note() {
	s.end()
	s.write()
}

func (s *survived) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live != "" {
		s.keep(s.live)
		s.live, s.changed = "", true
	}
}

// write returns when all is on disk that is to be kept.
func (s *survived) write() {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	content, changed := strings.Join(s.kept, "\n")+"\n", s.changed
	s.changed = false
	s.mu.Unlock()
	if !changed {
		return
	}
	temporary := s.path + ".new"
	err := os.WriteFile(temporary, []byte(content), 0o600)
	if err == nil {
		err = os.Rename(temporary, s.path)
	}
	if err != nil {
		s.log.Warn("a death may be counted that was none", "error", err)
	}
}
