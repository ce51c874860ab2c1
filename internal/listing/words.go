package listing

import "sync"

// words are texts that are stored once for all tasks. They are safe for concurrent use: a
// listing is parsed while the index changes.
type words struct {
	mu    sync.Mutex
	known map[string]string
}

// wordsMax limits the words that are remembered.
const wordsMax = 4096

func newWords() *words { return &words{known: map[string]string{}} }

// of returns a text that equals s.
func (w *words) of(s string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known, ok := w.known[s]; ok {
		return known
	}
	if len(w.known) < wordsMax {
		w.known[s] = s
	}
	return s
}
