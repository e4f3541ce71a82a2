package index

import "github.com/berth-dev/berth/engine/internal/cluster"

// Index is how many pods of each class that was asked about fit on each node, and in each domain.
type Index struct {
	m        *cluster.Model
	workload []expectation // of the policy
	prices   *prices       // of the mix that placements are priced by; nil: none is known

	kinds     map[string]*NodeKind
	kindsMade uint64              // goes up when kinds are made anew
	profiles  map[string]*profile // of kinds, by what they tell
	kindsOf   []kindOf            // by Node.Index
	respecs   uint64              // goes up when a node becomes of another kind
	asked     []string            // label keys that pods ask about and nodes have, sorted; node kinds differ by their values
	looks     map[*cluster.Shape]*look
	groups    map[string]*groups // by the keys, joined
	views     []view             // by bucket
	shut      []cell             // see shutCells
	looked    uint64             // views made so far
	metKinds  []metKind          // by node kind, of the view being made
	layouts   []layout           // of certificates, by level
	counting  counting
	keys      map[string]*keyView // domains of node labels that rules between pods name
	classes   classes
	freed     []int64 // room to count in: see CouldHold
}

func New(m *cluster.Model) *Index {
	return &Index{
		m: m, workload: expect(m.Dims, m.Config.Workload),
		kinds: make(map[string]*NodeKind), profiles: make(map[string]*profile), looks: make(map[*cluster.Shape]*look), groups: make(map[string]*groups),
	}
}
