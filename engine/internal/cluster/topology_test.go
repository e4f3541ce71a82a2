package cluster

import (
	"testing"

	"github.com/berth-dev/berth/engine/internal/api"
)

// A label with an empty value is another domain than no label, at every level: a rack lies in one zone, or in none.
func TestDomainsLieWithinOneAnother(t *testing.T) {
	config, _ := api.Config{Levels: []api.Level{{Name: "zone", Label: "zone"}, {Name: "rack", Label: "rack"}}}.Normal()
	m := NewModel(config)
	m.LoadAll(&api.Snapshot{Version: api.SnapshotVersion, Nodes: []api.Node{
		{Name: "a", Version: 1, Labels: map[string]string{"rack": "r1"}},
		{Name: "b", Version: 1, Labels: map[string]string{"rack": "r1", "zone": ""}},
		{Name: "c", Version: 1, Labels: map[string]string{"rack": "r1", "zone": "z"}},
	}})
	zoneOf := make(map[*Domain]*Domain)
	for _, n := range m.SortedNodes() {
		zone, rack := n.Bucket.Domains[0], n.Bucket.Domains[1]
		if was, known := zoneOf[rack]; known && was != zone {
			t.Errorf("rack %q of node %s lies in two zones", rack.Name, n.Name)
		}
		zoneOf[rack] = zone
	}
}
