package budget

import "sync"

// Store is what many holders may keep together where nobody is killed for it: files, or logs. A holder
// may always keep a little, whatever the others keep. Safe for concurrent use; a nil store has no limit.
type Store struct {
	free, limit int64

	mu   sync.Mutex
	used int64
}

// NewStore makes a store in which each holder may keep free bytes outside the limit: at worst limit plus free
// times the number of holders is kept.
func NewStore(limit, free int64) *Store { return &Store{limit: limit, free: free} }

// Take asks for n more bytes, or gives bytes back where n is negative, for a holder that keeps held now. It
// says whether they fit; giving back always does.
func (s *Store) Take(held, n int64) bool {
	if s == nil {
		return true
	}
	more := max(0, held+n-s.free) - max(0, held-s.free)
	if more == 0 {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if more > 0 && more > s.limit-s.used {
		return false
	}
	s.used += more
	return true
}

// Used is what the holders keep beyond what is free to each, and the limit of that.
func (s *Store) Used() (used, limit int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, s.limit
}
