package workload

import "sync"

// Progress is what a checkpoint holds: whole steps done.
type Progress struct {
	Steps int64
}

// Store keeps checkpoints by key, beyond the life of the pods that made them. It is safe for
// concurrent use. Keys are free text made from names that users choose.
type Store interface {
	// Load returns the last checkpoint; ok is false when there is none. An error means that
	// there is something which cannot be read.
	Load(key string) (p Progress, ok bool, err error)
	Save(key string, p Progress) error
	// Delete forgets the checkpoint, and is fine with there being none.
	Delete(key string) error
}

// NewFileStore keeps checkpoints as files in dir, which is made if need be; "" means in memory
// only, for clusters that keep nothing.
func NewFileStore(dir string) (Store, error) {
	if dir == "" {
		return newMemoryStore(), nil
	}
	return openFileStore(dir)
}

// memoryStore is the Store of an ephemeral cluster.
type memoryStore struct {
	mu   sync.Mutex
	kept map[string]Progress
}

func newMemoryStore() *memoryStore { return &memoryStore{kept: map[string]Progress{}} }

func (m *memoryStore) Load(key string) (Progress, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.kept[key]
	return p, ok, nil
}

func (m *memoryStore) Save(key string, p Progress) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept[key] = p
	return nil
}

func (m *memoryStore) Delete(key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.kept, key)
	return nil
}
